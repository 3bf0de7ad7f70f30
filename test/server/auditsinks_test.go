package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

const sinksPath = "/apis/auditregistration.k8s.io/v1alpha1/auditsinks"

// sunk is an event as a sink gets it.
type sunk struct {
	Verb, RequestURI              string
	RequestObject, ResponseObject json.RawMessage
	ResponseStatus                struct {
		Code    int
		Message string
	}
	User        struct{ Username string }
	UserAgent   string
	Annotations map[string]string
}

// receiver is a sink over HTTP.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	events []sunk
	text   strings.Builder
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		text, _ := io.ReadAll(req.Body)
		var list struct{ Items []sunk }
		if err := json.Unmarshal(text, &list); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, list.Items...)
		r.text.Write(text)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) said(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(r.text.String(), text)
}

// forget begins again.
func (r *receiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
	r.text.Reset()
}

// of lists the events of a verb, or of all, with that in their URI.
func (r *receiver) of(verb, uri string) (all []sunk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if (verb == "" || e.Verb == verb) && strings.Contains(e.RequestURI, uri) {
			all = append(all, e)
		}
	}
	return all
}

// sink makes a sink that gets what happens in a namespace, and awaits that it does.
func (f *fieldWorld) sink(t *testing.T, name, namespace, spec string) *receiver {
	t.Helper()
	r := newReceiver(t)
	class := fmt.Sprintf(`{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: %s}, spec: {rules: [{groupResourceSelectors: [{group: "*", scope: Namespaced, namespaces: [%s]}]}]}}`, name, namespace)
	f.admin(t, http.MethodPost, strings.Replace(sinksPath, "auditsinks", "auditclasses", 1), "application/yaml", class)
	f.admin(t, http.MethodPost, sinksPath, "application/yaml", fmt.Sprintf(`{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: %s}, spec: {%s,
		policy: {rules: [{level: RequestResponse, withAuditClass: %s}]}, webhook: {throttle: {qps: 1000, burst: 1000}, clientConfig: {url: %q}}}}`, name, spec, name, r.URL))
	t.Cleanup(func() { f.forget(t, sinksPath+"/"+name) })
	n := 0
	f.settled(t, "the sink "+name, func() bool {
		n++
		f.as(t, "admin", http.MethodGet, fmt.Sprintf("/api/v1/namespaces/%s/configmaps/%s-%d", namespace, name, n), jsonBody, "")
		return len(r.of("get", "/configmaps/"+name)) > 0
	})
	return r
}

// DA-16: a sink gets fields that it redacts without their values, in objects, in lists and in what was applied; it gets
// no patches and nothing in which the fields cannot be found; managed fields are left out.
func TestSinksRedact(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "redacted")
	f.apply(t, fieldsGroup+"/color", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"FieldPermission","metadata":{"name":"color"},
		"spec":{"resources":["safes.example.com"],"field":".spec.color","permission":"example.com/color"}}`)
	plain := f.sink(t, "plain-redacted", "redacted", "omitManagedFields: false")
	byName := f.sink(t, "by-name", "redacted", "omitManagedFields: true, redact: {permissions: [example.com/color]}")
	byPath := f.sink(t, "by-path", "redacted", `redact: {fields: [{resources: [pods], field: ".spec.containers[].command"}, {resources: [safes.example.com], field: .spec.color}]}`)
	unknown := f.sink(t, "unknown", "redacted", `redact: {permissions: [example.com/undeclared]}`)
	readers := map[string]*receiver{"by name": byName, "by path": byPath, "unknown": unknown}

	const safes = "/apis/example.com/v1/namespaces/redacted/safes"
	safe := func(name, more string) string {
		return `{"apiVersion":"example.com/v1","kind":"Safe","metadata":{"name":"` + name + `"` + more + `},"spec":{"color":"topsecret","size":"visible"}}`
	}
	f.admin(t, http.MethodPost, safes, jsonBody, safe("s", `,"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"example.com/v1\",\"spec\":{\"color\":\"topsecret\"}}"}`))
	f.admin(t, http.MethodPatch, safes+"/s", mergePatch, `{"spec":{"color":"topsecret"}}`)
	f.admin(t, http.MethodGet, safes, jsonBody, "")
	f.as(t, "admin", http.MethodGet, safes+"?as=table", "application/json;as=Table;g=meta.k8s.io;v=v1", "")
	f.as(t, "admin", http.MethodPost, safes, jsonBody, strings.Replace(safe("bad", ""), `"color":"topsecret"`, `"color":["topsecret"]`, 1))
	f.admin(t, http.MethodPost, "/apis/apps/v1/namespaces/redacted/deployments", jsonBody, `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"visible","command":["topsecret"]}]}}}}`)
	f.admin(t, http.MethodDelete, safes+"/s", jsonBody, "")
	for _, r := range []*receiver{plain, byName, byPath, unknown} {
		f.settled(t, "the events", func() bool { return len(r.of("delete", "/safes/s")) == 1 })
	}

	if !plain.said("topsecret") || plain.said("REDACTED") {
		t.Error("a sink that redacts nothing does not get everything")
	}
	if !plain.said("managedFields") || byName.said("managedFields") || !byPath.said("managedFields") {
		t.Error("managed fields are not left out where they are to be")
	}
	for name, r := range map[string]*receiver{"by name": byName, "by path": byPath} {
		create := r.of("create", "/safes")
		if len(create) != 2 || !strings.Contains(string(create[0].RequestObject), `"color":"REDACTED","size":"visible"`) || !strings.Contains(string(create[0].ResponseObject), `\"spec\":{\"color\":\"REDACTED\"}}`) ||
			!strings.Contains(create[0].Annotations["audit.proviso.dev/redacted"], ".spec.color") {
			t.Errorf("%s: creates %+v", name, create)
		}
		if list := r.of("list", "/safes"); len(list) == 0 || !strings.Contains(string(list[0].ResponseObject), `"color":"REDACTED"`) {
			t.Errorf("%s: list %+v", name, list)
		}
	}
	deployed := byPath.of("create", "/deployments")
	if len(deployed) != 1 || !strings.Contains(string(deployed[0].RequestObject), `"command":["REDACTED"]`) || !strings.Contains(string(deployed[0].ResponseObject), `"image":"visible"`) {
		t.Errorf("a template: %+v", deployed)
	}
	for _, e := range append(unknown.of("create", ""), unknown.of("list", "")...) {
		if e.RequestObject != nil || e.ResponseObject != nil || !strings.Contains(e.Annotations["audit.proviso.dev/redacted"], "removed") {
			t.Errorf("a sink whose permission is not declared gets %+v", e)
		}
	}
	for name, r := range readers {
		patch := r.of("patch", "/safes/s")
		if len(patch) != 1 || patch[0].RequestObject != nil || name != "unknown" && patch[0].ResponseObject == nil {
			t.Errorf("%s: patch %+v", name, patch)
		}
		for _, e := range r.of("", "") {
			text := string(e.RequestObject) + string(e.ResponseObject) + e.ResponseStatus.Message
			if strings.Contains(text, "topsecret") && (name != "by name" || !strings.Contains(e.RequestURI, "deployments")) {
				t.Errorf("%s: %s %s: %s", name, e.Verb, e.RequestURI, text)
			}
		}
	}
}

// HF-8: a sink gets hidden fields only of the permissions that it reveals, and its writer has to see them everywhere.
func TestSinksReveal(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "revealing")
	for user, more := range map[string]string{"sinker": "list", "sightedsinker": "reveal:example.com/secretdata"} {
		f.grant(t, user, []string{"", "auditregistration.k8s.io"}, []string{"secrets", "auditsinks"}, "get", "create", "update", "delete", more)
		f.settled(t, "the rights", func() bool { return f.may(t, user, "auditregistration.k8s.io", "auditsinks", more) })
	}
	body := func(name, url, reveal string) string {
		return fmt.Sprintf(`{"apiVersion":"auditregistration.k8s.io/v1alpha1","kind":"AuditSink","metadata":{"name":%q},"spec":{"reveal":[%s],"policy":{"level":"None"},"webhook":{"clientConfig":{"url":%q}}}}`, name, reveal, url)
	}
	const one = `"example.com/secretdata"`
	refused(t, "a writer who does not see", f.as(t, "sinker", http.MethodPost, sinksPath, jsonBody, body("r1", "http://a.example/", one)), "reveal:example.com/secretdata")
	allowed(t, "without reveal", f.as(t, "sinker", http.MethodPost, sinksPath, jsonBody, body("r2", "http://a.example/", "")))
	refused(t, "an update", f.as(t, "sinker", http.MethodPut, sinksPath+"/r2", jsonBody, body("r2", "http://a.example/", one)), "reveal:example.com/secretdata")
	allowed(t, "a writer who sees", f.as(t, "sightedsinker", http.MethodPost, sinksPath, jsonBody, body("r1", "http://a.example/", one)))
	refused(t, "another permission", f.as(t, "sightedsinker", http.MethodPut, sinksPath+"/r1", jsonBody, body("r1", "http://a.example/", one+`,"example.com/env"`)), "reveal:example.com/env")
	refused(t, "one that hides nothing yet", f.as(t, "sightedsinker", http.MethodPut, sinksPath+"/r1", jsonBody, body("r1", "http://a.example/", one+`,"example.com/later"`)), "reveal:example.com/later")
	refused(t, "another receiver", f.as(t, "sinker", http.MethodPut, sinksPath+"/r1", jsonBody, body("r1", "http://b.example/", one)), "reveal:example.com/secretdata")
	allowed(t, "nothing is revealed any more", f.as(t, "sinker", http.MethodPut, sinksPath+"/r1", jsonBody, body("r1", "http://b.example/", "")))
	if got := f.as(t, "admin", http.MethodPost, sinksPath, jsonBody, body("r3", "http://a.example/", `"not a name"`)); got.code != 422 || !strings.Contains(got.message, "spec.reveal[0]") {
		t.Errorf("a bad name: %d %s", got.code, got.message)
	}
	if got := f.as(t, "admin", http.MethodPost, sinksPath, jsonBody, body("r3", "http://a.example/", `"example.com/later"`)); got.code != 201 || !strings.Contains(got.warning, "hides a field now") {
		t.Errorf("an unknown name: %d %s %s", got.code, got.message, got.warning)
	}
	for _, name := range []string{"r1", "r2", "r3"} {
		f.admin(t, http.MethodDelete, sinksPath+"/"+name, jsonBody, "")
	}

	blind := f.sink(t, "blind-sink", "revealing", "omitManagedFields: true")
	sighted := f.sink(t, "sighted-sink", "revealing", "reveal: [example.com/secretdata]")
	f.admin(t, http.MethodPost, "/api/v1/namespaces/revealing/secrets", jsonBody, `{"metadata":{"name":"s"},"data":{"a":"c2VjcmV0"}}`)
	f.admin(t, http.MethodPost, "/api/v1/namespaces/revealing/configmaps", jsonBody, `{"metadata":{"name":"s"},"data":{"a":"hiddenvalue"}}`)
	for _, r := range []*receiver{blind, sighted} {
		f.settled(t, "the events", func() bool { return len(r.of("create", "/configmaps")) == 1 })
		if r.said("hiddenvalue") {
			t.Error("a field of another permission is shown")
		}
	}
	if blind.said("c2VjcmV0") || !sighted.said("c2VjcmV0") {
		t.Errorf("blind %v, sighted %v", blind.said("c2VjcmV0"), sighted.said("c2VjcmV0"))
	}
}

// DA-16: a sink ends.
func TestSinksEnd(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "ending")
	for bad, want := range map[string]string{
		`notAfter: "2031-01-01T00:00:00.5Z"`:                                "spec.notAfter",
		`redact: {}`:                                                        "spec.redact",
		`redact: {permissions: [Secret]}`:                                   "spec.redact.permissions[0]",
		`redact: {fields: [{resources: [secrets], field: data}]}`:           "spec.redact.fields[0].field",
		`redact: {fields: [{resources: [secrets], field: .datum}]}`:         "spec.redact.fields[0].field",
		`redact: {fields: [{resources: [secrets], field: .metadata.name}]}`: "spec.redact.fields[0].field",
		`redact: {fields: [{resources: ["secrets/status"], field: .data}]}`: "spec.redact.fields[0].resources[0]",
		`redact: {fields: [{resources: [], field: .data}]}`:                 "spec.redact.fields[0].resources",
		`reveal: [example.com/secretdata, example.com/secretdata]`:          "spec.reveal[1]",
	} {
		if got := f.as(t, "admin", http.MethodPost, sinksPath, "application/yaml", "{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: bad}, spec: {"+bad+"}}"); got.code != 422 || !strings.Contains(got.message, want) {
			t.Errorf("%s: %d %s", bad, got.code, got.message)
		}
	}
	past := f.as(t, "admin", http.MethodPost, sinksPath+"?dryRun=All", "application/yaml", `{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: past}, spec: {notAfter: "2020-01-01T00:00:00Z", redact: {permissions: [example.com/none]}}}`)
	if past.code != 201 || !strings.Contains(past.warning, "it is past") || !strings.Contains(past.warning, "example.com/none is declared") {
		t.Errorf("an end that is past: %d %s %s", past.code, past.message, past.warning)
	}
	lasting := f.sink(t, "lasting", "ending", "omitManagedFields: true")
	end := time.Now().Add(30 * time.Second).Truncate(time.Second)
	ending := f.sink(t, "ending", "ending", fmt.Sprintf("notAfter: %q", end.UTC().Format(time.RFC3339)))
	shorter := time.Now().Add(2 * time.Second).Truncate(time.Second)
	f.admin(t, http.MethodPatch, sinksPath+"/ending", mergePatch, fmt.Sprintf(`{"spec":{"notAfter":%q}}`, shorter.UTC().Format(time.RFC3339)))
	f.settled(t, "the end", func() bool {
		return strings.Contains(fmt.Sprint(f.as(t, "admin", http.MethodGet, sinksPath+"/ending", jsonBody, "").body["status"]), "reason:Ended")
	})
	if time.Now().Before(shorter) {
		t.Error("it has ended too soon")
	}
	f.as(t, "admin", http.MethodGet, "/api/v1/namespaces/ending/configmaps/afterwards", jsonBody, "")
	f.settled(t, "the other sink", func() bool { return len(lasting.of("get", "/configmaps/afterwards")) == 1 })
	if got := ending.of("get", "/configmaps/afterwards"); len(got) > 0 {
		t.Errorf("a sink that has ended got %+v", got)
	}
	f.admin(t, http.MethodPatch, sinksPath+"/ending", mergePatch, `{"spec":{"notAfter":null}}`)
	n := 0
	f.settled(t, "it goes on", func() bool {
		n++
		f.as(t, "admin", http.MethodGet, fmt.Sprint("/api/v1/namespaces/ending/configmaps/again-", n), jsonBody, "")
		return len(ending.of("get", "/configmaps/again")) > 0
	})
}

// DA-18: the compiled policies of the running server can be seen by those who may see what they are made of; a class
// that selects nothing which is served is a warning.
func TestEffectiveAuditPolicy(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "effective")
	f.sink(t, "effective", "effective", "omitManagedFields: true")
	var found []struct {
		Sink   string
		Active bool
		Policy map[string]any
		From   [][]string
	}
	get := func(user, query string) (int, string) {
		got := f.as(t, user, http.MethodGet, "/proviso/audit/effective"+query, jsonBody, "")
		return got.code, got.message // of a list it is the text
	}
	code, text := get("admin", "?sink=effective")
	if err := json.Unmarshal([]byte(text), &found); code != 200 || err != nil || len(found) != 1 || !found[0].Active || found[0].Policy["omitManagedFields"] != true ||
		found[0].From[0][0] != `spec.policy.rules[0]: audit class "effective", spec.rules[0]` || !strings.Contains(text, `"namespaces":["effective"]`) {
		t.Errorf("%d %s", code, text)
	}
	for query, want := range map[string]int{"?sink=none": 404, "?sink=": 400, "?sinks=effective": 400, "": 200} {
		if code, text := get("admin", query); code != want {
			t.Errorf("%s: %d %s", query, code, text)
		}
	}
	f.apply(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles/effective", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"effective"},"rules":[{"nonResourceURLs":["/proviso/audit/effective"],"verbs":["get"]}]}`)
	f.apply(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/effective", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"effective"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"effective"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"auditor"}]}`)
	f.settled(t, "the URL", func() bool {
		code, text := get("auditor", "")
		return code == 403 && strings.Contains(text, "may list auditsinks and auditclasses")
	})
	f.grant(t, "auditor", []string{"auditregistration.k8s.io"}, []string{"auditsinks", "auditclasses"}, "list")
	f.settled(t, "the rights", func() bool { code, _ := get("auditor", ""); return code == 200 })

	warned := f.as(t, "admin", http.MethodPost, "/apis/auditregistration.k8s.io/v1alpha1/auditclasses?dryRun=All", "application/yaml",
		`{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: nothing}, spec: {rules: [{groupResourceSelectors: [{group: "", resources: [{kind: secret}, {kind: pods, subresources: [exec]}, {kind: safes}]}, {group: example.com, resources: [{kind: safes}]}]}]}}`)
	if warned.code != 201 || !strings.Contains(warned.warning, "spec.rules[0].groupResourceSelectors[0].resources[0].kind: no resource secret is served") ||
		!strings.Contains(warned.warning, "resources[2].kind") || strings.Contains(warned.warning, "resources[1]") || strings.Contains(warned.warning, "groupResourceSelectors[1]") {
		t.Errorf("%d %s %s", warned.code, warned.message, warned.warning)
	}
}

// forget deletes something when a test has ended.
func (f *fieldWorld) forget(t *testing.T, path string) {
	t.Helper()
	client, err := rest.HTTPClientFor(f.s.admin)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete, f.s.admin.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// DA-18: the lists by which the server finds out how new its policy is are not among what a sink gets; those of others
// are.
func TestSinksDoNotGetTheServersQuestions(t *testing.T) {
	f, _ := hiding(t)
	r := newReceiver(t)
	f.admin(t, http.MethodPost, sinksPath, "application/yaml", fmt.Sprintf(`{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: questions}, spec: {policy: {level: Request}, webhook: {clientConfig: {url: %q}}}}`, r.URL))
	defer f.forget(t, sinksPath+"/questions")
	f.settled(t, "an answer that takes such a list", func() bool {
		f.as(t, "admin", http.MethodGet, sinksPath+"?limit=1", jsonBody, "")
		return len(r.of("list", sinksPath+"?limit=1")) > 0
	})
	// Each source is asked every 15 s; the lease of the server is renewed every 10 s.
	f.settled(t, "some time", func() bool { return len(r.of("update", "/leases/apiserver-")) > 2 })
	for _, e := range r.of("list", "limit=1") {
		if e.User.Username == "system:apiserver" {
			t.Errorf("the sink got %s by %s", e.RequestURI, e.UserAgent)
		}
	}
}

// DA-1, DA-4: RBAC divides the work on audit as the design has it: who supplies rules, who decides where events go, and
// who only looks. Rights in a namespace give none of it.
func TestRightsToAuditObjects(t *testing.T) {
	f, _ := hiding(t)
	const group, classesPath = "auditregistration.k8s.io", "/apis/auditregistration.k8s.io/v1alpha1/auditclasses"
	f.namespace(t, "da-team")
	f.grant(t, "da-rules", []string{group}, []string{"auditclasses"}, "get", "create", "patch", "delete")
	f.grant(t, "da-sinks", []string{group}, []string{"auditsinks"}, "get", "create", "patch", "delete")
	f.grant(t, "da-looks", []string{group}, []string{"auditsinks", "auditclasses"}, "get", "list")
	f.apply(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles/da-one", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"da-one"},
 "rules":[{"apiGroups":["`+group+`"],"resources":["auditsinks"],"resourceNames":["da-mine"],"verbs":["patch"]}]}`)
	f.apply(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/da-one", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"da-one"},
 "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"da-one"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"da-one"}]}`)
	f.apply(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/da-team/rolebindings/da-local", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"da-local"},
 "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"da-local"}]}`)
	f.settled(t, "the rights", func() bool {
		return f.may(t, "da-rules", group, "auditclasses", "delete") && f.may(t, "da-sinks", group, "auditsinks", "delete") && f.may(t, "da-looks", group, "auditsinks", "list") &&
			f.as(t, "da-one", http.MethodPatch, sinksPath+"/da-mine", mergePatch, `{}`).code == 404 && f.as(t, "da-local", http.MethodGet, "/api/v1/namespaces/da-team/secrets", jsonBody, "").code == 200
	})
	sink := func(name, level string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"policy":{"level":"None","rules":[{"withAuditClass":"da-class","level":"` + level + `"}]},"webhook":{"clientConfig":{"url":"https://audit.example.com"}}}}`
	}
	const class, other = `{"metadata":{"name":"da-class"},"spec":{"rules":[{"verbs":["delete"]}]}}`, `{"spec":{"rules":[{"verbs":["create"]}]}}`
	for _, step := range []struct {
		user, method, path, body string
		want                     int
	}{
		{"da-sinks", http.MethodPost, classesPath, class, 403},
		{"da-rules", http.MethodPost, classesPath, class, 201},
		{"da-rules", http.MethodPost, sinksPath, sink("da-mine", "Metadata"), 403},
		{"da-sinks", http.MethodPost, sinksPath, sink("da-mine", "Metadata"), 201},
		{"da-sinks", http.MethodPost, sinksPath, sink("da-other", "Request"), 201},
		{"da-sinks", http.MethodPatch, classesPath + "/da-class", other, 403},
		{"da-rules", http.MethodPatch, classesPath + "/da-class", other, 200},
		{"da-one", http.MethodPatch, sinksPath + "/da-mine", `{"spec":{"policy":{"level":"Metadata"}}}`, 200},
		{"da-one", http.MethodPatch, sinksPath + "/da-other", `{"spec":{"policy":{"level":"Metadata"}}}`, 403},
		{"da-looks", http.MethodGet, sinksPath, "", 200},
		{"da-looks", http.MethodGet, classesPath + "/da-class", "", 200},
		{"da-looks", http.MethodDelete, sinksPath + "/da-mine", "", 403},
		{"da-local", http.MethodGet, sinksPath, "", 403},
		{"da-local", http.MethodPost, sinksPath, sink("da-more", "Request"), 403},
		{"da-local", http.MethodPost, classesPath, class, 403},
		{"da-rules", http.MethodDelete, classesPath + "/da-class", "", 409},
		{"da-sinks", http.MethodDelete, sinksPath + "/da-mine", "", 200},
		{"da-sinks", http.MethodDelete, sinksPath + "/da-other", "", 200},
		{"da-rules", http.MethodDelete, classesPath + "/da-class", "", 200},
	} {
		contentType := jsonBody
		if step.method == http.MethodPatch {
			contentType = mergePatch
		}
		if got := f.as(t, step.user, step.method, step.path, contentType, step.body); got.code != step.want {
			t.Errorf("%s %s %s: %d, want %d: %s", step.user, step.method, step.path, got.code, step.want, got.message)
		}
	}
}
