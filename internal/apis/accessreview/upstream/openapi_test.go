package upstream

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestOpenAPI: the schemas that kubectl explain reads have our fields, keep all of Kubernetes', and refer to nothing
// that is missing.
func TestOpenAPI(t *testing.T) {
	p := newPair(t, true)
	stock, ours := schemas(t, p.stock, "v1"), schemas(t, p.ours, "v1")
	for name, schema := range stock {
		for property, want := range properties(schema) {
			got, ok := properties(ours[name])[property]
			if !ok {
				t.Errorf("%s.%s is missing", name, property)
				continue
			}
			if a, b := shape(want), shape(got); a != b {
				t.Errorf("%s.%s: Kubernetes has %s, ours %s", name, property, a, b)
			}
		}
	}
	const v1 = "io.k8s.api.authorization.v1."
	for _, tt := range []struct{ schema, property string }{
		{v1 + "SubjectAccessReviewSpec", "conditionalAuthorization"}, {v1 + "SubjectAccessReviewSpec", "authorizationOptions"},
		{v1 + "SelfSubjectAccessReviewSpec", "conditionalAuthorization"}, {v1 + "SubjectAccessReviewStatus", "conditionsChain"},
		{v1 + "SubjectAccessReviewStatus", "conditionalDecision"}, {v1 + "ConditionsAwareDecision", "union"},
	} {
		if _, ok := properties(ours[tt.schema])[tt.property]; !ok {
			t.Errorf("%s has no %s", tt.schema, tt.property)
		}
	}
	gvk, _ := json.Marshal(ours[v1+"SubjectAccessReview"]["x-kubernetes-group-version-kind"])
	if want := `[{"group":"authorization.k8s.io","kind":"SubjectAccessReview","version":"v1"}]`; string(gvk) != want {
		t.Errorf("got kind %s, want %s", gvk, want)
	}
	alpha := schemas(t, p.ours, "v1alpha1")
	if _, ok := properties(alpha["io.k8s.api.authorization.v1alpha1.AuthorizationConditionsRequest"])["conditionSet"]; !ok {
		t.Error("AuthorizationConditionsRequest has no conditionSet")
	}
	gvk, _ = json.Marshal(alpha["io.k8s.api.authorization.v1alpha1.AuthorizationConditionsReview"]["x-kubernetes-group-version-kind"])
	if want := `[{"group":"authorization.k8s.io","kind":"AuthorizationConditionsReview","version":"v1alpha1"}]`; string(gvk) != want {
		t.Errorf("got kind %s, want %s", gvk, want)
	}
	for _, all := range []map[string]map[string]any{ours, alpha} {
		text, _ := json.Marshal(all)
		for _, part := range strings.Split(string(text), `"$ref":"#/components/schemas/`)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			if _, ok := all[name]; !ok {
				t.Errorf("there is a reference to %s, which is missing", name)
			}
		}
	}
}

// TestDiscovery: both versions of the group are announced, v1 first, and everything can only be created.
func TestDiscovery(t *testing.T) {
	p := newPair(t, false)
	const v1 = "/apis/authorization.k8s.io/v1"
	if want, got := get(t, p.stock, v1), get(t, p.ours, v1); want != got {
		t.Errorf("Kubernetes has %s, ours %s", want, got)
	}
	if got := get(t, p.ours, "/apis/authorization.k8s.io"); !strings.Contains(got, `"preferredVersion":{"groupVersion":"authorization.k8s.io/v1","version":"v1"}`) ||
		!strings.Contains(got, `"groupVersion":"authorization.k8s.io/v1alpha1"`) {
		t.Errorf("got %s", got)
	}
	want := `{"name":"authorizationconditionsreviews","singularName":"authorizationconditionsreview","namespaced":false,"kind":"AuthorizationConditionsReview","verbs":["create"]}`
	if got := get(t, p.ours, "/apis/authorization.k8s.io/v1alpha1"); !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func get(t *testing.T, server *rest.Config, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %d %s %v", path, resp.StatusCode, body, err)
	}
	return strings.TrimSpace(string(body))
}

func schemas(t *testing.T, server *rest.Config, version string) map[string]map[string]any {
	t.Helper()
	var document struct {
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal([]byte(get(t, server, "/openapi/v3/apis/authorization.k8s.io/"+version)), &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Components.Schemas) == 0 {
		t.Fatal("there are no schemas")
	}
	return document.Components.Schemas
}

func properties(schema map[string]any) map[string]any {
	p, _ := schema["properties"].(map[string]any)
	return p
}

// shape is a property without its prose.
func shape(property any) string {
	var strip func(any) any
	strip = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			clean := map[string]any{}
			for k, sub := range v {
				if k != "description" {
					clean[k] = strip(sub)
				}
			}
			return clean
		case []any:
			clean := slices.Clone(v)
			for i := range clean {
				clean[i] = strip(clean[i])
			}
			return clean
		}
		return v
	}
	text, _ := json.Marshal(strip(property))
	return string(text)
}
