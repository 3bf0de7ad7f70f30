package bypass

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// installWidgets serves a custom resource in two versions, with status and scale.
func (w *world) installWidgets() {
	w.t.Helper()
	version := `{"name": %q, "served": true, "storage": %v, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
		"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}, "x-kubernetes-preserve-unknown-fields": true},
		"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}`
	w.install("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{"metadata": {"name": "widgets.hunt.example.com"},
		"spec": {"group": "hunt.example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
		"versions": [`+version+`, `+version+`]}}`, "v1", true, "v2", false))
}

// backend is another API server, to which the aggregator sends requests. It says yes to everything.
type backend struct {
	mu      sync.Mutex
	reached map[string]int // by user
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", jsonType)
	switch {
	case r.URL.Path == "/apis/agg.example.com/v1":
		verbs := `["create","delete","deletecollection","get","list","patch","update","watch"]`
		_, _ = fmt.Fprintf(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "agg.example.com/v1", "resources": [
			{"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": %s},
			{"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["get", "patch", "update"]},
			{"name": "things/act", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["create"]}]}`, verbs)
		return
	case !strings.HasPrefix(r.URL.Path, "/apis/agg.example.com/v1/"):
		http.NotFound(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	b.mu.Lock()
	b.reached[r.Header.Get("X-Remote-User")]++
	b.mu.Unlock()
	_, _ = io.WriteString(w, `{"kind": "Thing", "apiVersion": "agg.example.com/v1", "metadata": {"name": "x", "namespace": "x"}}`)
}

// by is how often a user's requests came through.
func (b *backend) by(user string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reached[user]
}

// installBackend registers another API server.
func (w *world) installBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{reached: map[string]int{}}
	s := httptest.NewTLSServer(b)
	t.Cleanup(s.Close)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	w.install("/api/v1/namespaces/default/services", fmt.Sprintf(`{"metadata": {"name": "backend"}, "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": %d}]}}`, port))
	w.install("/apis/apiregistration.k8s.io/v1/apiservices", fmt.Sprintf(`{"metadata": {"name": "v1.agg.example.com"}, "spec": {"group": "agg.example.com", "version": "v1",
		"groupPriorityMinimum": 10, "versionPriority": 10, "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "backend", "port": %d}}}`, port))
	w.await("the other API server", func() bool {
		var groups struct{ Groups []struct{ Name string } }
		if json.Unmarshal(w.admins("GET", "/apis", nil).answer, &groups) != nil {
			return false
		}
		for _, g := range groups.Groups {
			if g.Name == "agg.example.com" {
				return w.admins("GET", "/apis/agg.example.com/v1/things", nil).succeeded()
			}
		}
		return false
	})
	return b
}

// mutate is the label by which a caller asks the mutating webhook to change his object after he has sent it.
const mutate = "hunt.example.com/mutate"

// installWebhook has objects mutated: it sets what the label says, on the caller's behalf.
func (w *world) installWebhook(t *testing.T) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(mutating))
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config := parse(`{"metadata": {"name": "hunt"}, "webhooks": [{"name": "hunt.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
		"objectSelector": {"matchExpressions": [{"key": "` + mutate + `", "operator": "Exists"}]}, "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]}]}`)
	config["webhooks"].([]any)[0].(map[string]any)["clientConfig"] = map[string]any{"url": s.URL, "caBundle": ca}
	w.install("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", string(encodeJSON(config)))
}

func mutating(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID    string
			Object map[string]any
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := map[string]any{"uid": review.Request.UID, "allowed": true}
	labels, _ := child(review.Request.Object, "metadata")["labels"].(map[string]any)
	if order, ok := labels[mutate].(string); ok {
		field, key, _ := strings.Cut(order, ".")
		c := change{field: field, key: "example.com/" + key, value: "injected"}
		response["patchType"], response["patch"] = "JSONPatch", encodeJSON(c.operations(review.Request.Object))
	}
	w.Header().Set("Content-Type", jsonType)
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

// installPolicy says who may do what: see the systems' files for what each of these callers is for.
func (w *world) installPolicy() {
	w.t.Helper()
	const master = "/apis/authorization.proviso.dev/v1alpha1/namespaces/master/"
	special := `"escalate", "bind", "deny", "unsafe-delete-ignore-read-errors"`
	for name, rules := range map[string]string{
		"cond-false": `[{"verbs": ["*", ` + special + `], "resourceKinds": ["*"], "when": "operation == 'NEVER'", "description": "never"},
			{"verbs": ["impersonate"], "resourceKinds": ["*"], "when": "impersonatedRequest.verb == 'never'"}]`,
		"cond-true":   `[{"verbs": ["*", ` + special + `], "resourceKinds": ["*"], "when": "operation != 'NEVER'"}]`,
		"where-false": `[{"verbs": ["*", ` + special + `], "resourceKinds": ["*"], "where": "resource.metadata.labels['mine'] == 'yes'", "description": "only mine"}]`,
		"see-mine":    `[{"verbs": ["get", "list", "watch"], "resourceKinds": ["*"], "where": "resource.metadata.labels['mine'] == 'yes'", "description": "only mine"}]`,
		"denied":      `[{"deny": true, "verbs": ["*", ` + special + `, "impersonate"], "resourceKinds": ["*"]}, {"deny": true, "verbs": ["*"], "nonResourceURLs": ["*"]}]`,
		"no-secrets":  `[{"deny": true, "verbs": ["*"], "resourceKinds": ["secrets"]}]`,
		"cond-denied": `[{"deny": true, "verbs": ["create", "update", "patch", "delete", "deletecollection", "exec", "proxy"], "resourceKinds": ["*"], "when": "operation != 'NEVER'", "description": "nothing"}]`,
	} {
		w.install(master+"roles", fmt.Sprintf(`{"metadata": {"name": %q}, "rules": %s}`, name, rules))
		w.install(master+"rolebindings", fmt.Sprintf(`{"metadata": {"name": %q}, "roleRef": {"namespace": "master", "name": %q}, "userNames": [%q]}`, name, name, name))
	}
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	write := `"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"`
	for name, verbs := range map[string]string{
		"writer":   write + `, "escalate", "bind", "deny", "approve", "sign", "attest", "impersonate"`,
		"granular": `"get", "list", "watch", "granular", "granular:label(ok.example.com)"`,
		"keepers":  `"none"`,
	} {
		w.install(rbac+"clusterroles", fmt.Sprintf(`{"metadata": {"name": %q}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": [%s]}]}`, name, verbs))
	}
	for user, role := range map[string]string{
		"denied": "cluster-admin", "cond-denied": "cluster-admin", "no-secrets": "cluster-admin", "boss": "cluster-admin", "general": "writer", "outsider": "writer", "granular": "granular",
	} {
		w.install(rbac+"clusterrolebindings", fmt.Sprintf(`{"metadata": {"name": "hunt-%s"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": %q},
			"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": %q}]}`, user, role, user))
	}
	const own = "/apis/policy.proviso.dev/v1alpha1/"
	w.install(own+"fieldpermissions", `{"metadata": {"name": "guarded"}, "spec": {"resources": ["*"], "field": ".metadata.labels[example.com/guarded]", "permission": "example.com/guarded", "exclusive": true}}`)
	for kind, field := range map[string]string{"Label": "labels", "Annotation": "annotations"} {
		w.install(own+"clusterprotectedattributes", fmt.Sprintf(`{"metadata": {"name": "hunt-%s"}, "attributeKind": %q, "attributeName": "example.com/protected", "scope": "IncludeTemplates",
			"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "keepers"}}`, field, kind))
	}
}

// awaitPolicy waits until everything that was installed is in effect: each of these requests is refused from then on,
// and the last one is not.
func (w *world) awaitPolicy() {
	w.t.Helper()
	w.settle("probe")
	quiet := func(user string) *caller { return newCaller(w.t, w.as(user), user, &ledger{}) }
	widget := func(field, key string) request {
		object := change{field: field, key: key, value: "x"}.done(parse(`{"apiVersion": "hunt.example.com/v2", "kind": "Widget", "metadata": {"name": "probe"}}`))
		return request{method: "POST", path: "/apis/hunt.example.com/v2/namespaces/hunt-probe/widgets", query: "dryRun=All", body: encodeJSON(object),
			header: map[string]string{"Content-Type": jsonType}}
	}
	for _, probe := range []struct {
		user    string
		request request
		refused bool
	}{
		{"denied", request{method: "GET", path: "/version"}, true},
		{"denied", request{method: "GET", path: "/api/v1/nodes"}, true},
		{"no-secrets", request{method: "GET", path: "/api/v1/secrets"}, true},
		{"cond-denied", widget("labels", "x"), true},
		{"general", widget("labels", "example.com/guarded"), true},
		{"outsider", widget("labels", "example.com/protected"), true},
		{"outsider", widget("annotations", "example.com/protected"), true},
		{"outsider", widget("labels", "x"), false},
		{"granular", widget("labels", "ok.example.com/x"), false},
		{"cond-true", widget("labels", "x"), false},
		{"see-mine", request{method: "GET", path: "/api/v1/configmaps", query: "labelSelector=mine%3Dyes"}, false},
		{"boss", widget("labels", "x"), false},
	} {
		c := quiet(probe.user)
		w.await("the policy about "+probe.user, func() bool { return (c.do(w.ctx, probe.request).code == 403) == probe.refused })
	}
}
