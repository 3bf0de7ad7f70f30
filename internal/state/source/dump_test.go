package source

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/state/snapshot"
)

// TR-1: a dump holds nothing that is nobody's business, and all that is decided by.
func TestDisclosed(t *testing.T) {
	for _, test := range []struct {
		kind       snapshot.Kind
		text       string
		gone, kept []string
	}{
		{snapshot.Policies, `
metadata: {name: default, managedFields: [{manager: x}], annotations: {kubectl.kubernetes.io/last-applied-configuration: hush, policy.proviso.dev/namespace-uid: "1"}}
roles: {dev: {metadata: {name: dev, managedFields: [{manager: x}], annotations: {kubectl.kubernetes.io/last-applied-configuration: hush}}, rules: [{verbs: [get]}]}}
status: {observedGeneration: 1}`, []string{"managedFields", "hush", "status"}, []string{"namespace-uid", "verbs"}},
		{snapshot.PolicyBindings, `{metadata: {name: a}, roleBindings: {dev: {metadata: {managedFields: [{manager: x}]}, userNames: [edgar]}}}`, []string{"managedFields"}, []string{"edgar"}},
		{snapshot.AuditSinks, `{metadata: {name: a}, spec: {webhook: {clientConfig: {url: "https://collector/?token=hush"}}}, status: {message: x}}`, []string{"hush", "status"}, []string{"https://withheld.invalid"}},
		{snapshot.Definitions, `{metadata: {name: a}, spec: {group: g}, status: {acceptedNames: {kind: A}}}`, nil, []string{"acceptedNames"}},
		{snapshot.Namespaces, `{metadata: {name: a, labels: {team: x}}}`, nil, []string{"team"}},
	} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(test.text), &object.Object); err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(disclosed(test.kind, object).Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, gone := range test.gone {
			if strings.Contains(string(text), gone) {
				t.Errorf("%s in %s", gone, text)
			}
		}
		for _, kept := range test.kept {
			if !strings.Contains(string(text), kept) {
				t.Errorf("no %s in %s", kept, text)
			}
		}
	}
}

// TM-10: a dump has the rules by which rights are asked for, but not who asked and why. They are not even read.
func TestDumpHasNoAccessRequests(t *testing.T) {
	const group, version = "access.proviso.dev", "access.proviso.dev/v1alpha1"
	object := func(kind, name string) map[string]any {
		return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}}
	}
	gv := map[string]any{"groupVersion": version, "version": "v1alpha1"}
	answers := map[string]any{
		"/api":  map[string]any{"kind": "APIVersions", "versions": []any{}},
		"/apis": map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{map[string]any{"name": group, "versions": []any{gv}, "preferredVersion": gv}}},
		"/apis/" + version: map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": []any{
			map[string]any{"name": "accessrules", "kind": "AccessRule"}, map[string]any{"name": "accessrequests", "kind": "AccessRequest", "namespaced": true}}},
		"/apis/" + version + "/accessrules":    map[string]any{"kind": "AccessRuleList", "apiVersion": version, "items": []any{object("AccessRule", "on-call")}},
		"/apis/" + version + "/accessrequests": map[string]any{"kind": "AccessRequestList", "apiVersion": version, "items": []any{object("AccessRequest", "private")}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/accessrequests") {
			t.Errorf("%s is read", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	all, err := Dump(t.Context(), &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range all {
		if o.GetKind() != "APIResourceList" {
			names = append(names, o.GetKind()+" "+o.GetName())
		}
	}
	if got := strings.Join(names, ", "); got != "AccessRule on-call" {
		t.Errorf("a dump has %s", got)
	}
}
