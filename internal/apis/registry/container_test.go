package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// PO-3, PO-4: containers are created empty, one Policy per namespace, and their contents are changed through the views
// only.
func TestContainersAreShellsOnly(t *testing.T) {
	s := serve(t, &world{})
	policies, bindings := policyAPI+"/namespaces/hammer/policies", policyAPI+"/namespaces/hammer/policybindings"

	s.refuse(422, "POST", policies, `{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: other}}`, "metadata.name", `"default"`)
	s.refuse(422, "POST", policies, `{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default}, roles: {a: {rules: []}}}`, "roles", "kind Role")
	s.must("POST", policies, `{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default}}`)
	s.refuse(409, "POST", policies, `{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default}}`, "already exists")

	s.refuse(422, "POST", bindings, `{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: nail}}`, "metadata.name", "hammer", "master")
	s.refuse(422, "POST", bindings, `{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: hammer}, policyRef: {namespace: master}}`, "policyRef.namespace")
	s.refuse(422, "POST", bindings, `{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: hammer}, roleBindings: {a: {roleName: x}}}`, "roleBindings", "kind RoleBinding")
	made := s.must("POST", bindings, `{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: hammer}}`)
	if got := made.at("policyRef", "namespace"); got != "hammer" {
		t.Errorf("policyRef.namespace defaults to %v, want the name", got)
	}
	if made.at("lastModified") == nil {
		t.Error("a new container shows no lastModified")
	}

	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	s.must("POST", bindingsIn("hammer"), bindingYAML("readers", "hammer", "reader", "edgar"))
	// Every way of writing the contents directly is refused, and the remedy is named.
	for _, tc := range []struct{ path, contents, kind string }{
		{policies + "/default", `{"roles":{"reader":{"rules":[{"verbs":["*"],"resourceKinds":["*"]}]}}}`, "Role"},
		{policies + "/default", `{"roles":{"more":{"rules":[]}}}`, "Role"},
		{policies + "/default", `{"roles":{"reader":null}}`, "Role"},
		{bindings + "/hammer", `{"roleBindings":{"readers":{"userNames":["mallory"]}}}`, "RoleBinding"},
	} {
		got := s.call("PATCH", tc.path, tc.contents, "Content-Type", mergePatch)
		if got.code != 422 || !strings.Contains(got.message(), "kind "+tc.kind) {
			t.Errorf("patch %s with %s: %d %s", tc.path, tc.contents, got.code, got.message())
		}
	}
	whole := s.must("GET", policies+"/default", nil)
	whole.body["roles"] = map[string]any{}
	s.refuse(422, "PUT", policies+"/default", whole.body, "kind Role")
	// Metadata can be changed, and leaves the contents alone.
	s.must("PATCH", policies+"/default", `{metadata: {labels: {team: a}}}`, "Content-Type", mergePatch)
	if s.must("GET", policies+"/default", nil).at("roles", "reader") == nil {
		t.Error("a change of labels lost a role")
	}
}

// PO-4: a container is deleted when it is empty, or with its namespace, which always completes.
func TestContainerDeletion(t *testing.T) {
	w := &world{}
	s := serve(t, w)
	s.containers("hammer", "nail")
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	s.must("POST", bindingsIn("hammer"), bindingYAML("readers", "hammer", "reader", "edgar"))
	policies, bindings := policyAPI+"/namespaces/hammer/policies", policyAPI+"/namespaces/hammer/policybindings"

	s.refuse(409, "DELETE", policies+"/default", nil, "1 role (reader)", "delete them first")
	s.refuse(409, "DELETE", policies, nil, "reader")
	s.refuse(409, "DELETE", bindings+"/hammer", nil, "1 role binding (readers)")
	s.must("DELETE", policyAPI+"/namespaces/nail/policies/default", nil)

	w.set(func() { w.terminating["hammer"] = true })
	// In whatever order the namespace controller works, through collections or one by one: nothing is stuck. What
	// cannot go on its own goes with its container.
	s.refuse(409, "DELETE", rolesIn("hammer")+"/reader", nil, "bound by")
	s.must("DELETE", policies, nil)
	s.must("DELETE", bindings, nil)
	for _, path := range []string{policies, bindings, rolesIn("hammer"), bindingsIn("hammer")} {
		if items, _ := s.must("GET", path, nil).at("items").([]any); len(items) != 0 {
			t.Errorf("%s still has %d items", path, len(items))
		}
	}
}

// PO-4: if it cannot be told whether the namespace goes away, what is in it stays.
func TestContainerDeletionFailsClosed(t *testing.T) {
	w := &world{}
	s := serve(t, w)
	s.containers("hammer")
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	w.set(func() { w.unknowable["hammer"] = true })
	if got := s.call("DELETE", policyAPI+"/namespaces/hammer/policies/default", nil); got.code/100 == 2 {
		t.Error("deleted a container without knowing whether its namespace goes away")
	}
	s.must("GET", rolesIn("hammer")+"/reader", nil)
	w.set(func() { w.unknown["hammer"] = true })
	if got := s.call("GET", rolesIn("hammer")+"/reader", nil); got.code != 500 {
		t.Errorf("read a role without knowing whose it is: %d", got.code)
	}
}

// PO-3: a container holds 1 MiB. One entry more is a 413 that says so, and nothing else is harmed.
func TestContainerLimit(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	big := strings.Repeat("x", 250_000)
	annotated := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":%q,"annotations":{"a":%q}},"rules":[]}`, name, big)
	}
	for i := range 4 {
		s.must("POST", rolesIn("hammer"), annotated(fmt.Sprintf("big-%d", i)))
	}
	s.refuse(413, "POST", rolesIn("hammer"), annotated("big-4"), "1048576", "limit", "policies.policy.proviso.dev hammer/default")
	s.must("POST", rolesIn("hammer"), roleYAML("small", readPods))
	// A change that would be too large is refused as well, and one that makes it smaller is not.
	got := s.call("PATCH", rolesIn("hammer")+"/small", fmt.Sprintf(`{"metadata":{"annotations":{"a":%q}}}`, big), "Content-Type", mergePatch)
	if got.code != 413 {
		t.Errorf("growing an entry beyond the limit: %d %s", got.code, got.message())
	}
	s.must("PATCH", rolesIn("hammer")+"/big-0", `{"metadata":{"annotations":null}}`, "Content-Type", mergePatch)
	s.must("POST", rolesIn("hammer"), annotated("big-4"))
}

// PO-4: containers can be watched, and a change of a role is one event of its policy.
func TestContainersCanBeWatched(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	start := s.must("GET", policyAPI+"/policies", nil).at("metadata", "resourceVersion")
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%s%s/policies?watch=true&resourceVersion=%s", s.url, policyAPI, start), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	events := json.NewDecoder(resp.Body)
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	var event struct {
		Type   string
		Object struct{ Roles map[string]any }
	}
	if err := events.Decode(&event); err != nil {
		t.Fatal(err)
	}
	if event.Type != "MODIFIED" || event.Object.Roles["reader"] == nil {
		t.Errorf("event %s with roles %v", event.Type, event.Object.Roles)
	}
}

// PO-1, PO-2: the status of a policy is written through its subresource only, and shown with each role.
func TestPolicyStatus(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	s.must("POST", rolesIn("hammer"), roleYAML("reader", `{verbs: [get], resourceKinds: ["*", "-roles", DeploymentConfig]}`))
	path := policyAPI + "/namespaces/hammer/policies/default"
	const status = `{"status":{"unresolvedKinds":["DeploymentConfig"],"roles":{"reader":{"rules":[{"rule":0,"coveredKinds":["pods"],"coveredCount":1,"unresolvedKinds":["DeploymentConfig"]}]}}}}`
	s.must("PATCH", path, status, "Content-Type", mergePatch)
	if s.must("GET", path, nil).at("status", "unresolvedKinds") != nil {
		t.Fatal("the status was written through the main resource")
	}
	before := s.must("GET", path, nil)
	s.must("PATCH", path+"/status", status, "Content-Type", mergePatch)
	after := s.must("GET", path, nil)
	if after.at("status", "unresolvedKinds") == nil || fmt.Sprint(after.at("roles")) != fmt.Sprint(before.at("roles")) || after.at("metadata", "generation") != before.at("metadata", "generation") {
		t.Errorf("after a status update: %v", after.body)
	}
	// The other way round: a status update changes nothing else.
	s.must("PATCH", path+"/status", `{"roles":{"reader":{"rules":[{"verbs":["*"],"resourceKinds":["*"]}]}},"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergePatch)
	if now := s.must("GET", path, nil); fmt.Sprint(now.at("roles")) != fmt.Sprint(before.at("roles")) || now.at("metadata", "labels") != nil {
		t.Errorf("a status update changed the contents: %v", now.body)
	}
	role := s.must("GET", rolesIn("hammer")+"/reader", nil)
	if got := fmt.Sprint(role.at("status")); !strings.Contains(got, "DeploymentConfig") || !strings.Contains(got, "pods") {
		t.Errorf("the role shows the status %s", got)
	}
	// Nobody writes it through the role, and it goes away with the role.
	s.must("PATCH", rolesIn("hammer")+"/reader", `{"status":{"rules":[]}}`, "Content-Type", mergePatch)
	if got := fmt.Sprint(s.must("GET", rolesIn("hammer")+"/reader", nil).at("status")); !strings.Contains(got, "DeploymentConfig") {
		t.Errorf("the status was written through the role: %s", got)
	}
	s.must("DELETE", rolesIn("hammer")+"/reader", nil)
	if got := s.must("GET", path, nil).at("status", "roles", "reader"); got != nil {
		t.Errorf("the status outlived its role: %v", got)
	}
	// A status that would not fit is refused instead of failing in the store.
	huge := `{"status":{"unresolvedKinds":["` + strings.Repeat("x", 1_400_000) + `"]}}`
	if got := s.call("PATCH", path+"/status", huge, "Content-Type", mergePatch); got.code != 422 || !strings.Contains(got.message(), "limit") {
		t.Errorf("a status that is too large: %d %s", got.code, got.message())
	}
}

// PO-21: what one role, and what one namespace, may hold is bounded by counting; the refusal says by what. What is at
// the limit is fine, and what is over it can be reduced.
func TestRoleLimits(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	rules := func(n int, rule string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(rule+",", n), ",") + "]"
	}
	const plain = `{"verbs":["get"],"resourceKinds":["pods"]}`
	const conditional = `{"deny":true,"verbs":["delete"],"resourceKinds":["pods"],"when":"object.a == 1"}`
	role := func(name, rules string) string {
		return fmt.Sprintf(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":%q},"rules":%s}`, name, rules)
	}
	s.refuse(422, "POST", rolesIn("hammer"), role("a", rules(1001, plain)), "1001 rules, the limit is 1000", "split it into several roles")
	s.must("POST", rolesIn("hammer"), role("a", rules(1000, plain)))
	crowd := func(n int) string {
		return `{"verbs":["get"],"resourceKinds":["pods"],"resourceNames":["n"` + strings.Repeat(`,"n"`, n-3) + `]}`
	}
	s.refuse(422, "POST", rolesIn("hammer"), role("crowd", rules(1, crowd(4001))), "4001 verbs, kinds, groups, names and paths, the limit is 4000")
	s.must("POST", rolesIn("hammer"), role("crowd", rules(1, crowd(4000))))
	s.refuse(422, "POST", rolesIn("hammer"), role("b", rules(129, conditional)), "129 rules with conditions, the limit is 128")
	long := `{"verbs":["get"],"resourceKinds":["pods"],"resourceNames":["` + strings.Repeat("n", 260<<10) + `"]}`
	s.refuse(422, "POST", rolesIn("hammer"), role("b", rules(1, long)), "bytes, the limit is 262144")
	for i := range 7 {
		s.must("POST", rolesIn("hammer"), role(fmt.Sprint("r", i), rules(128, conditional)))
	}
	s.refuse(422, "POST", rolesIn("hammer"), role("last", rules(128, conditional)), "have 1024 rules with conditions, the limit is 1000")
	s.must("POST", rolesIn("hammer"), role("last", rules(104, conditional)))
	s.must("PUT", rolesIn("hammer")+"/last", role("last", rules(1, conditional)))
}

// The conditions that a role had before are not compiled again when something else in it changes.
func TestConditionsAreCheckedOnce(t *testing.T) {
	checked := 0
	s := serve(t, &world{checkRule: func(policy.PolicyRule, *field.Path) field.ErrorList { checked++; return nil }})
	s.containers("hammer")
	const old = `{"verbs":["create"],"resourceKinds":["pods"],"when":"object.a == 1"}`
	role := func(rules string) string {
		return `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"r"},"rules":[` + rules + `]}`
	}
	s.must("POST", rolesIn("hammer"), role(old))
	first := checked
	s.must("PUT", rolesIn("hammer")+"/r", role(old+`,{"verbs":["get"],"resourceKinds":["pods"]}`))
	if first == 0 || checked > 2*first {
		t.Errorf("%d checks at first, %d in all", first, checked)
	}
	before := checked
	s.must("PUT", rolesIn("hammer")+"/r", role(strings.Replace(old, "== 1", "== 2", 1)))
	if checked == before {
		t.Error("a new condition was not checked")
	}
}
