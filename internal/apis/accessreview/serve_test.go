package accessreview

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/test/reviewtest"
)

const group = "/apis/authorization.k8s.io/"

// serve runs a server that answers from the given decisions.
func serve(t testing.TB, c Config, decisions ...authorizer.ConditionsAwareDecision) *rest.Config {
	t.Helper()
	if c.Requests == nil {
		c.Requests = unrestricted{}
	}
	if c.Sight == nil {
		c.Sight = unrestricted{}
	}
	links := make([]*reviewtest.Scripted, len(decisions))
	for i, d := range decisions {
		links[i] = &reviewtest.Scripted{Decision: d}
	}
	if c.Chain == nil {
		c.Chain = reviewtest.Chain(t, links...)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return reviewtest.Serve(t, p, reviewtest.OpenAPI{Definitions: definitions, Schemes: []*runtime.Scheme{scheme}})
}

// definitions has ours, and an object of unknown shape for each of Kubernetes', so that its map need not be linked
// here.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	stub := func() common.OpenAPIDefinition {
		d := common.OpenAPIDefinition{Schema: spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}}
		d.Schema.AddExtension("x-kubernetes-preserve-unknown-fields", true)
		return d
	}
	all := OpenAPIDefinitions(ref)
	for _, d := range OpenAPIDefinitions(ref) {
		for _, name := range d.Dependencies {
			if _, ours := all[name]; !ours {
				all[name] = stub()
			}
		}
	}
	all[authorizationv1.SelfSubjectRulesReview{}.OpenAPIModelName()] = stub()
	return all
}

// reply is what came back over HTTP.
type reply struct {
	code        int
	contentType string
	body        []byte
}

func post(t testing.TB, server *rest.Config, path, contentType, accept string, body []byte) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.Host+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer alice")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header.Get("Content-Type"), answer}
}

// postYAML sends a review written in YAML and returns one field of the answer as YAML.
func postYAML(t testing.TB, server *rest.Config, path, review, field string) (int, string) {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(review))
	if err != nil {
		t.Fatal(err)
	}
	r := post(t, server, path, "application/json", "application/json", body)
	var answer map[string]any
	if err := json.Unmarshal(r.body, &answer); err != nil {
		t.Fatalf("status %d, body %q: %v", r.code, r.body, err)
	}
	text, err := yaml.Marshal(answer[field])
	if err != nil {
		t.Fatal(err)
	}
	return r.code, strings.TrimSpace(string(text))
}

// tidy cuts what is common to all lines, so that expectations can be indented as the code is.
func tidy(s string) string {
	lines := strings.Split(strings.Trim(s, "\n\t "), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimLeft(l, "\t")
	}
	return strings.Join(lines, "\n")
}
