package server

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/request/enforce"
)

// TestFieldPermissions tries, on the real server, every way round field permissions that is known (FP-5 … FP-10,
// FP-15). Each refusal has a twin that is allowed and differs in one thing.
func TestFieldPermissions(t *testing.T) {
	t.Parallel()
	f := &fieldWorld{audited: trail}
	f.s = audited.get(t)
	f.clients = map[string]*http.Client{}
	f.install(t)
	t.Run("bad input", f.badInput)
	t.Run("who gets in", f.whoGetsIn)
	t.Run("conditions", f.conditions)
	t.Run("granular writes", f.granularWrites)
	t.Run("exclusive fields", f.exclusiveFields)
	t.Run("subresources", f.subresources)
	t.Run("versions", f.versions)
	t.Run("custom resources", f.customResources)
	t.Run("mutation", f.mutation)
	t.Run("managers", f.managers)
	t.Run("managers of exclusive fields", f.exclusiveManagers)
	t.Run("carried", f.carried)
	t.Run("bindings", f.bindings)
	t.Run("created with status", f.createdWithStatus)
	t.Run("siblings", f.siblings)
	t.Run("number of checks", f.numberOfChecks)
	t.Run("removed again", f.removedAgain)
	t.Run("not enforced", f.notEnforced)
}

// fieldWorld is the server with its users and objects.
type fieldWorld struct {
	s       *instance
	audited *auditTrail
	mu      sync.Mutex
	clients map[string]*http.Client
}

// auditTrail keeps the annotations of events by their ID.
type auditTrail struct {
	mu          sync.Mutex
	annotations map[string]map[string]string
}

func (a *auditTrail) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	return audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}
}

func (a *auditTrail) ProcessEvents(events ...*auditinternal.Event) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range events {
		if e.Stage == auditinternal.StageResponseComplete {
			a.annotations[string(e.AuditID)] = maps.Clone(e.Annotations)
		}
	}
	return true
}

func (a *auditTrail) Run(<-chan struct{}) error { return nil }
func (a *auditTrail) Shutdown()                 {}
func (a *auditTrail) String() string            { return "trail" }

// answer is what a request was answered with.
type answer struct {
	code    int
	message string
	body    map[string]any
	auditID string
	warning string
}

// client is the one of a user. There is one of each: a connection takes a file.
func (f *fieldWorld) client(t *testing.T, user string) *http.Client {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.clients[user]; known != nil {
		return known
	}
	config := f.s.admin
	if user != "admin" {
		config = f.s.as(user)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	f.clients[user] = client
	return client
}

// send sends a request in the name of a user, and reads the whole answer.
func (f *fieldWorld) send(t *testing.T, user, method, path, contentType, accept, body string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.s.admin.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", accept)
	resp, err := f.client(t, user).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "has just changed and is not known to the policy yet") { // as clients do
		time.Sleep(10 * time.Millisecond)
		return f.send(t, user, method, path, contentType, accept, body)
	}
	return resp, raw
}

// as sends a request in the name of a user; body is JSON text.
func (f *fieldWorld) as(t *testing.T, user, method, path, contentType, body string) answer {
	t.Helper()
	resp, raw := f.send(t, user, method, path, contentType, "application/json", body)
	a := answer{code: resp.StatusCode, auditID: resp.Header.Get("Audit-Id"), warning: strings.Join(resp.Header["Warning"], "\n")}
	if err := json.Unmarshal(raw, &a.body); err != nil {
		a.message = string(raw)
		return a
	}
	if a.body["kind"] == "Status" {
		a.message, _ = a.body["message"].(string)
	}
	return a
}

const (
	jsonBody    = "application/json"
	mergePatch  = "application/merge-patch+json"
	jsonPatch   = "application/json-patch+json"
	strategic   = "application/strategic-merge-patch+json"
	applyPatch  = "application/apply-patch+yaml"
	fieldsGroup = "/apis/policy.proviso.dev/v1alpha1/fieldpermissions"
)

// allowed and refused check an answer; refused also that the message names what is needed.
func allowed(t *testing.T, what string, a answer) {
	t.Helper()
	if a.code >= 300 {
		t.Errorf("%s: %d %s", what, a.code, a.message)
	}
}

func refused(t *testing.T, what string, a answer, needs string) {
	t.Helper()
	if a.code != http.StatusForbidden || !strings.Contains(a.message, needs) {
		t.Errorf("%s: got %d %q, want 403 that says %q", what, a.code, a.message, needs)
	}
}

// admin does something that must succeed.
func (f *fieldWorld) admin(t *testing.T, method, path, contentType, body string) answer {
	t.Helper()
	a := f.as(t, "admin", method, path, contentType, body)
	if a.code >= 300 {
		t.Fatalf("admin: %s %s: %d %s", method, path, a.code, a.message)
	}
	return a
}

// apply stores YAML or JSON as the admin.
func (f *fieldWorld) apply(t *testing.T, path, body string) {
	t.Helper()
	f.admin(t, http.MethodPatch, path+"?fieldManager=test&force=true", applyPatch, body)
}

// grant gives a user verbs on resources, everywhere.
func (f *fieldWorld) grant(t *testing.T, user string, groups, resources []string, verbs ...string) {
	t.Helper()
	name := "fields-" + user
	rule := map[string]any{"apiGroups": groups, "resources": resources, "verbs": verbs}
	role := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name}, "rules": []any{rule}}
	binding := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
		"subjects": []any{map[string]any{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}}}
	for plural, object := range map[string]any{"clusterroles": role, "clusterrolebindings": binding} {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		f.apply(t, "/apis/rbac.authorization.k8s.io/v1/"+plural+"/"+name, string(text))
	}
}

// settled waits until the rights of a user are in effect: the probe, which the last of them allows, succeeds.
func (f *fieldWorld) settled(t *testing.T, what string, probe func() bool) {
	t.Helper()
	f.s.await(what, func() (bool, error) { return probe(), nil })
}

// object names an object of the test's namespace.
func namespaced(plural, name string) string {
	return "/api/v1/namespaces/default/" + plural + "/" + name
}

func dryRun(path string) string { return path + "?dryRun=All" }

// may asks an access review whether a user has a verb.
func (f *fieldWorld) may(t *testing.T, user, group, resource, verb string) bool {
	t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	body := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":%q,"resourceAttributes":{"group":%q,"resource":%q,"subresource":%q,"verb":%q,"namespace":"default"}}}`,
		user, group, resource, subresource, verb)
	a := f.admin(t, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", jsonBody, body)
	status, _ := a.body["status"].(map[string]any)
	return status["allowed"] == true
}

// checks are the permissions that a request was checked for, from its audit event.
func (f *fieldWorld) checks(t *testing.T, a answer) (decision string, checks []string) {
	t.Helper()
	var annotations map[string]string
	f.s.await("the audit event", func() (bool, error) {
		f.audited.mu.Lock()
		defer f.audited.mu.Unlock()
		annotations = f.audited.annotations[a.auditID]
		return annotations != nil, nil
	})
	if text := annotations[enforce.AnnotationFieldChecks]; text != "" {
		checks = strings.Split(text, ",")
	}
	return annotations[enforce.AnnotationFieldDecision], checks
}
