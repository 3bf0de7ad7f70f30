package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/state/snapshot"
)

// TestNobodyMovesNames: whatever definitions and other servers claim to serve, rules keep their meaning, conditions
// their version, and our groups their server (PO-2, SV-8).
func TestNobodyMovesNames(t *testing.T) {
	s, seen := plugged.get(t), pluggedServed
	n := &names{s: s, seen: seen, admin: newCaller(t, s.admin), alice: newCaller(t, s.as("alice"))}
	n.admin.must(t, "POST", viewsIn("master", "roles"), roleYAML("names", `{verbs: ["*"], resourceKinds: ["*", "-Secret"]},
		{deny: true, verbs: ["*"], resourceKinds: [ConfigMap, Ox, Deployment, Thing]}`))
	n.admin.must(t, "POST", viewsIn("master", "rolebindings"), strings.Replace(bindingYAML("names", "master", "names"), "edgar", "alice", 1))
	s.await("the role", func() (bool, error) {
		code, _, _ := n.alice.do(t, "GET", "/api/v1/namespaces/default/services", "")
		return code == http.StatusOK, nil
	})
	t.Run("built-in versions are those of the scheme", n.versions)
	t.Run("definitions in our groups", n.ourGroups)
	t.Run("definitions with names of others", n.hostile)
	t.Run("first object of a new kind", n.first)
	t.Run("other servers", n.remote)
}

type names struct {
	s            *instance
	seen         *servedPart
	admin, alice *caller
}

// servedPart sees what the snapshot says is served.
type servedPart struct {
	served atomic.Pointer[snapshot.Served]
}

func (p *servedPart) Name() string                  { return "the test" }
func (p *servedPart) HasSynced() bool               { return true }
func (p *servedPart) Apply(next *snapshot.Snapshot) { p.served.Store(next.Served) }

// versions compares with what discovery says of an untouched server: it is the same, though nobody asked it.
func (n *names) versions(t *testing.T) {
	var groups metav1.APIGroupList
	if err := json.Unmarshal(n.admin.must(t, "GET", "/apis", ""), &groups); err != nil {
		t.Fatal(err)
	}
	paths := []string{"/api/v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			paths = append(paths, "/apis/"+v.GroupVersion)
		}
	}
	want, resources := map[schema.GroupKind]string{}, 0
	for _, path := range paths {
		var list metav1.APIResourceList
		if err := json.Unmarshal(n.admin.must(t, "GET", path, ""), &list); err != nil {
			t.Fatal(err)
		}
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		for _, r := range list.APIResources {
			if kind := n.seen.served.Load().OwnKind(schema.GroupResource{Group: gv.Group, Resource: r.Name}); kind != r.Kind {
				t.Errorf("%s in %s has kind %q, want %q", r.Name, gv, kind, r.Kind)
			}
			if resources++; r.Group == "" && want[schema.GroupKind{Group: gv.Group, Kind: r.Kind}] == "" {
				want[schema.GroupKind{Group: gv.Group, Kind: r.Kind}] = gv.Version
			}
		}
	}
	for gk, version := range want {
		if got := n.seen.served.Load().PreferredVersion(gk); got != version {
			t.Errorf("%s is seen in version %q, want %q", gk, got, version)
		}
	}
	if resources < 100 || len(want) < 50 {
		t.Errorf("%d resources and %d kinds: nothing is tested", resources, len(want))
	}
}

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	servicesPath    = "/apis/apiregistration.k8s.io/v1/apiservices"
)

func definitionYAML(group, plural, kind, version string) string {
	return fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %[2]s.%[1]s, annotations: {api-approved.kubernetes.io: unapproved}},
  spec: {group: %[1]s, scope: Namespaced, names: {plural: %[2]s, singular: %[2]sx, kind: %[3]s, listKind: %[3]sList},
  versions: [{name: %[4]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`, group, plural, kind, version)
}

func serviceYAML(group, version string, port int) string {
	return fmt.Sprintf(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: %[2]s.%[1]s}, spec: {group: %[1]s, version: %[2]s,
  groupPriorityMinimum: 20000, versionPriority: 1000, insecureSkipTLSVerify: true, service: {namespace: default, name: other, port: %[3]d}}}`, group, version, port)
}

// ourGroups: a definition or another server in our groups is refused, also to system:masters.
func (n *names) ourGroups(t *testing.T) {
	for _, group := range []string{"policy.proviso.dev", "authorization.proviso.dev", "auditregistration.k8s.io"} {
		for what, code := range map[string]int{
			"definition":        first(n.admin.do(t, "POST", definitionsPath, definitionYAML(group, "policies", "Policy", "v1"))),
			"server":            first(n.admin.do(t, "POST", servicesPath, serviceYAML(group, "v1", 443))),
			"redirection":       first(n.admin.do(t, "PATCH", servicesPath+"/v1alpha1."+group, `{"spec": {"insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "other"}}}`)),
			"end of discovery":  first(n.admin.do(t, "DELETE", servicesPath+"/v1alpha1."+group, "")),
			"dry run of an end": first(n.admin.do(t, "DELETE", servicesPath+"/v1alpha1."+group+"?dryRun=All", "")),
		} {
			if code != http.StatusForbidden {
				t.Errorf("%s in %s: %d", what, group, code)
			}
		}
		n.admin.must(t, "PATCH", servicesPath+"/v1alpha1."+group, `{"metadata": {"annotations": {"x": "y"}}}`)
	}
}

func first(code int, _ string, _ []byte) int { return code }

// hostile: plurals that are kinds of ours, kinds that are plurals, and versions of built-in groups.
func (n *names) hostile(t *testing.T) {
	for _, d := range []string{
		definitionYAML("evil.io", "configmap", "Harmless", "v1"), definitionYAML("evil.io", "secret", "Other", "v1"),
		definitionYAML("evil.io", "secrets", "Neutral", "v1"), definitionYAML("rbac.authorization.k8s.io", "role", "Role", "v9"),
	} {
		n.admin.must(t, "POST", definitionsPath, d)
	}
	gr := schema.GroupResource{Group: "evil.io", Resource: "configmap"}
	n.s.await("the definitions", func() (bool, error) { return n.seen.served.Load().OwnKind(gr) == "Harmless", nil })
	for _, plural := range []string{"configmap", "secret", "secrets"} {
		n.s.await(plural, func() (bool, error) {
			return first(n.admin.do(t, "GET", "/apis/evil.io/v1/namespaces/default/"+plural, "")) == http.StatusOK, nil
		})
	}
	for path, want := range map[string]int{
		"/api/v1/namespaces/default/configmaps":            http.StatusForbidden,
		"/api/v1/namespaces/default/secrets":               http.StatusForbidden,
		"/apis/evil.io/v1/namespaces/default/configmap":    http.StatusForbidden, // a plural, too
		"/apis/evil.io/v1/namespaces/default/secret":       http.StatusForbidden,
		"/apis/evil.io/v1/namespaces/default/secrets":      http.StatusOK, // neither
		"/apis/apps/v1/namespaces/default/deployments":     http.StatusForbidden,
		"/apis/apps/v1/namespaces/default/statefulsets":    http.StatusOK,
		"/api/v1/namespaces/default/services":              http.StatusOK,
		"/apis/example.io/v1/namespaces/default/whatever":  http.StatusNotFound,
		"/apis/apps/v9/namespaces/default/whatever":        http.StatusNotFound,
		"/apis/farm.io/v1/namespaces/default/oxen/x/stall": http.StatusNotFound,
	} {
		if code, message, _ := n.alice.do(t, "GET", path, ""); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, message, want)
		}
	}
	if code := first(n.admin.do(t, "GET", "/apis/rbac.authorization.k8s.io/v9/namespaces/default/role", "")); code != http.StatusNotFound {
		t.Errorf("a definition in a group of Kubernetes is served: %d", code)
	}
	if got := n.seen.served.Load().PreferredVersion(schema.GroupKind{Group: "rbac.authorization.k8s.io", Kind: "Role"}); got != "v1" {
		t.Errorf("roles are seen in version %s", got)
	}
}

// first: a deny by kind holds for the very first object, though its plural does not give the kind away. Somebody who
// tries all the time gets in at no moment.
func (n *names) first(t *testing.T) {
	const path = "/apis/farm.io/v1/namespaces/default/"
	try := func(plural, kind string) (code int) {
		code, _, _ = n.alice.do(t, "POST", path+plural, fmt.Sprintf("{apiVersion: farm.io/v1, kind: %s, metadata: {generateName: x}}", kind))
		return code
	}
	for plural, want := range map[string]struct {
		kind string
		code int
	}{"oxen": {"Ox", http.StatusForbidden}, "geese": {"Goose", http.StatusCreated}} {
		created := make(chan struct{})
		go func() {
			defer close(created)
			n.admin.must(t, "POST", definitionsPath, definitionYAML("farm.io", plural, want.kind, "v1"))
		}()
		codes := map[int]int{}
		n.s.await("the first answer about "+plural, func() (bool, error) {
			code := try(plural, want.kind)
			codes[code]++
			return code == http.StatusForbidden || code == http.StatusCreated, nil
		})
		<-created
		if codes[want.code] != 1 {
			t.Errorf("%s: %v, want one %d", plural, codes, want.code)
		}
	}
}

// remote: another server lists whatever it likes, about others too.
func (n *names) remote(t *testing.T) {
	lists := map[string]string{
		"/apis/apps/v9": `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v9", "resources": [{"name": "deployments", "namespaced": true, "kind": "Harmless", "verbs": ["get"]},
			{"name": "deployment", "namespaced": true, "kind": "Deployment", "verbs": ["get"]}]}`,
		"/apis/remote.io/v1": `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1", "resources": [{"name": "deployments", "namespaced": true, "group": "apps", "version": "v9", "kind": "Deployment", "verbs": ["get"]},
			{"name": "configmap", "namespaced": true, "kind": "Harmless", "verbs": ["get"]}, {"name": "stuff", "namespaced": true, "kind": "Thing", "verbs": ["get"]}, {"name": "fine", "namespaced": true, "kind": "Fine", "verbs": ["get"]}]}`,
	}
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if list, ok := lists[strings.TrimSuffix(r.URL.Path, "/")]; ok {
			_, _ = io.WriteString(w, list)
			return
		}
		_, _ = io.WriteString(w, `{"kind": "Thing", "apiVersion": "remote.io/v1", "metadata": {"name": "x"}}`)
	}))
	defer other.Close()
	port := other.Listener.Addr().(*net.TCPAddr).Port
	n.admin.must(t, "POST", "/api/v1/namespaces/default/services", fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: other}, spec: {type: ExternalName, externalName: localhost, ports: [{port: %d}]}}`, port))
	n.admin.must(t, "POST", servicesPath, serviceYAML("apps", "v9", port))
	n.admin.must(t, "POST", servicesPath, serviceYAML("remote.io", "v1", port))
	const at = "/apis/remote.io/v1/namespaces/default/"
	n.s.await("the other server", func() (bool, error) {
		code := first(n.alice.do(t, "GET", at+"stuff/x", ""))
		if code == http.StatusOK {
			t.Fatal("a kind that is denied was read from the other server")
		}
		return code == http.StatusForbidden, nil
	})
	n.s.await("its other resource", func() (bool, error) { return first(n.alice.do(t, "GET", at+"fine/x", "")) == http.StatusOK, nil })
	n.s.await("its version of apps", func() (bool, error) {
		return first(n.admin.do(t, "GET", "/apis/apps/v9/namespaces/default/deployment/x", "")) == http.StatusOK, nil
	})
	for path, want := range map[string]int{
		"/api/v1/namespaces/default/configmaps":          http.StatusForbidden,
		"/apis/apps/v1/namespaces/default/deployments":   http.StatusForbidden,
		"/apis/apps/v9/namespaces/default/deployments/x": http.StatusForbidden,
		"/apis/apps/v9/namespaces/default/deployment/x":  http.StatusForbidden,
		"/apis/apps/v1/namespaces/default/statefulsets":  http.StatusOK,
	} {
		if code, message, _ := n.alice.do(t, "GET", path, ""); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, message, want)
		}
	}
	// A review says no as long as the request is refused, since nobody knows which kinds a server has that has not said
	// anything.
	n.admin.must(t, "POST", "/api/v1/namespaces/default/services", `{apiVersion: v1, kind: Service, metadata: {name: mute}, spec: {type: ExternalName, externalName: localhost, ports: [{port: 1}]}}`)
	n.admin.must(t, "POST", servicesPath, strings.Replace(serviceYAML("mute.io", "v1", 1), "name: other", "name: mute", 1))
	n.s.await("the server that says nothing", func() (bool, error) {
		return first(n.alice.do(t, "GET", "/apis/mute.io/v1/namespaces/default/things/x", "")) == http.StatusServiceUnavailable, nil
	})
	for group, want := range map[string]bool{"mute.io": false, "remote.io": true} {
		for _, version := range []string{"v1", "*"} {
			var review struct {
				Status struct {
					Allowed         bool
					EvaluationError string
				}
			}
			body := n.alice.must(t, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", fmt.Sprintf(
				`{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectAccessReview, spec: {resourceAttributes: {verb: get, group: %s, version: %q, resource: fine, namespace: default, name: x}}}`, group, version))
			if err := json.Unmarshal(body, &review); err != nil || review.Status.Allowed != want || (review.Status.EvaluationError == "") != want {
				t.Errorf("%s/%s: %s", group, version, body)
			}
		}
	}
	served := n.seen.served.Load()
	if got := served.PreferredVersion(schema.GroupKind{Group: "apps", Kind: "Deployment"}); got != "v1" {
		t.Errorf("deployments are seen in version %s", got)
	}
	if got := served.OwnKind(schema.GroupResource{Group: "apps", Resource: "deployment"}); got != "" {
		t.Errorf("the other server speaks for apps: %s", got)
	}
}
