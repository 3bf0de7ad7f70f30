package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install" // registers what is compared
	_ "k8s.io/kubernetes/pkg/apis/core/install"          // registers the options that every group shares
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	authorizationrest "k8s.io/kubernetes/pkg/registry/authorization/rest"

	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/test/reviewtest"
)

// open is a server that serves everything itself, knows everything and hides nothing.
type open struct{ gate *authorize.Gate }

func (o open) Unseen(attrs authorizer.Attributes) error                    { return o.gate.Unseen(attrs) }
func (open) AlsoNeeds(context.Context, authorizer.Attributes) string       { return "" }
func (open) Narrowed(context.Context, authorizer.Attributes) string        { return "" }
func (open) United(context.Context, authorizer.Attributes) (string, bool)  { return "", false }
func (open) Known(context.Context, authorizer.Attributes) error            { return nil }
func (o open) Of(context.Context, authorizer.Attributes) accessreview.View { return o }
func (open) Whole() bool                                                   { return true }
func (open) Shows(string) bool                                             { return true }

// pair is Kubernetes' server and ours, with the same authorizer behind them.
type pair struct {
	authorizer  *reviewtest.Scripted
	stock, ours *rest.Config
}

func newPair(t testing.TB, publish bool) *pair {
	t.Helper()
	p := &pair{authorizer: &reviewtest.Scripted{
		Decision: authorizer.ConditionsAwareDecisionNoOpinion("", nil),
		Rules:    []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
		Paths:    []authorizer.NonResourceRuleInfo{&authorizer.DefaultNonResourceRuleInfo{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}},
		Err:      errors.New("role x is missing"), Incomplete: true,
	}}
	chain := reviewtest.Chain(t, p.authorizer)
	p.stock = reviewtest.Serve(t, authorizationrest.RESTStorageProvider{Authorizer: chain, RuleResolver: chain}, reviewtest.OpenAPI{
		Definitions: generatedopenapi.GetOpenAPIDefinitions, Schemes: []*runtime.Scheme{legacyscheme.Scheme}, Publish: publish})

	provider, err := accessreview.New(accessreview.Config{
		Chain: chain, Requests: open{authorize.NewGate(authorize.GateConfig{Conditional: true, Local: authorize.LocalFunc(func(string, string) bool { return true })})}, Sight: open{},
	})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := accessreview.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	p.ours = reviewtest.Serve(t, provider, reviewtest.OpenAPI{
		Definitions: accessreview.WithOpenAPIDefinitions(generatedopenapi.GetOpenAPIDefinitions),
		Schemes:     []*runtime.Scheme{legacyscheme.Scheme, scheme}, Publish: publish})
	return p
}

// exchange is a request that both are sent.
type exchange struct {
	path, contentType, accept string
	body                      []byte
}

// answer is what a client can see of a response, without what is about the source code of the server.
type answer struct {
	Code        int
	ContentType string
	Warnings    string
	Body        string
}

var (
	// The name of a scheme is the place in the source where it was made.
	schemeName = regexp.MustCompile(`in scheme \\"[^"]*\\"`)
	// Ours embed Kubernetes', which shows in how Go names a field of the wrong type.
	embedded = regexp.MustCompile(`(spec|status)\.(Self)?SubjectAccessReview(Spec|Status)\.`)
	// What Kubernetes converts to are types of another package.
	typeName = regexp.MustCompile(`to \((authorization|v1)\.`)
)

func send(t testing.TB, server *rest.Config, e exchange) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.Host+"/apis/authorization.k8s.io/v1/"+e.path, bytes.NewReader(e.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", e.contentType)
	req.Header.Set("Accept", e.accept)
	req.Header.Set("Authorization", "Bearer alice")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := schemeName.ReplaceAllString(string(body), "in scheme")
	text = embedded.ReplaceAllString(text, "$1.")
	text = typeName.ReplaceAllString(text, "to (")
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), strings.Join(resp.Header.Values("Warning"), "\n"), text}
}
