package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// PO-4: roles and role bindings behave at their usual locations like objects of their own.
func TestRolesAreServedLikeObjects(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer", "nail")
	made := s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		if made.at("metadata", field) == nil {
			t.Errorf("a new role has no metadata.%s", field)
		}
	}
	if made.at("metadata", "namespace") != "hammer" || made.at("kind") != "Role" {
		t.Errorf("made %v", made.body)
	}
	s.refuse(409, "POST", rolesIn("hammer"), roleYAML("reader", readPods), "already exists")
	s.must("POST", rolesIn("nail"), roleYAML("reader", readPods)) // the same name in another namespace is another role

	// Replace, with the version that was read.
	got := s.must("GET", rolesIn("hammer")+"/reader", nil)
	got.body["rules"] = []any{map[string]any{"verbs": []any{"watch"}, "resourceKinds": []any{"pods"}}}
	put := s.must("PUT", rolesIn("hammer")+"/reader", got.body)
	if put.at("metadata", "generation") != float64(2) || put.at("metadata", "uid") != made.at("metadata", "uid") {
		t.Errorf("after an update: %v", put.at("metadata"))
	}
	if put.at("metadata", "resourceVersion") == got.at("metadata", "resourceVersion") {
		t.Error("an update kept the resource version")
	}
	// The same again is stale now; without a version it is unconditional; of another name it is refused.
	s.refuse(409, "PUT", rolesIn("hammer")+"/reader", got.body, "modified")
	delete(got.body["metadata"].(map[string]any), "resourceVersion")
	s.must("PUT", rolesIn("hammer")+"/reader", got.body)
	s.refuse(400, "PUT", rolesIn("hammer")+"/other", got.body)
	s.refuse(404, "PUT", rolesIn("hammer")+"/missing", roleYAML("missing", readPods))
	got.body["metadata"].(map[string]any)["uid"] = "11111111-1111-1111-1111-111111111111"
	s.refuse(409, "PUT", rolesIn("hammer")+"/reader", got.body, "uid")

	// What changes nothing writes nothing.
	before := s.must("GET", rolesIn("hammer")+"/reader", nil)
	container := s.must("GET", policyAPI+"/namespaces/hammer/policies/default", nil).at("metadata", "resourceVersion")
	s.must("PUT", rolesIn("hammer")+"/reader", before.body)
	s.must("PATCH", rolesIn("hammer")+"/reader", `{"metadata":{"labels":null}}`, "Content-Type", mergePatch)
	if now := s.must("GET", policyAPI+"/namespaces/hammer/policies/default", nil).at("metadata", "resourceVersion"); now != container {
		t.Error("an update without a change wrote the container")
	}

	// Patches of all kinds.
	s.must("PATCH", rolesIn("hammer")+"/reader", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergePatch)
	s.must("PATCH", rolesIn("hammer")+"/reader", `{"metadata":{"annotations":{"c":"d"}}}`, "Content-Type", strategicPatch)
	got = s.call("PATCH", rolesIn("hammer")+"/reader", `[{"op":"add","path":"/metadata/labels/e","value":"f"}]`, "Content-Type", "application/json-patch+json")
	if got.code != 200 || fmt.Sprint(got.at("metadata", "labels")) != "map[a:b e:f]" || fmt.Sprint(got.at("metadata", "annotations")) != "map[c:d]" {
		t.Errorf("after patches: %d %v", got.code, got.at("metadata"))
	}

	// Lists: of a namespace, of all, by label, by name.
	list := func(path string) string {
		var l struct {
			Kind     string
			Metadata struct{ ResourceVersion string }
			Items    []struct {
				Metadata struct{ Namespace, Name string }
			}
		}
		if err := json.Unmarshal(s.must("GET", path, nil).raw, &l); err != nil {
			t.Fatal(err)
		}
		if l.Kind != "RoleList" || l.Metadata.ResourceVersion == "" {
			t.Errorf("%s: kind %q, resource version %q", path, l.Kind, l.Metadata.ResourceVersion)
		}
		var names []string
		for _, i := range l.Items {
			names = append(names, i.Metadata.Namespace+"/"+i.Metadata.Name)
		}
		return strings.Join(names, " ")
	}
	s.must("POST", rolesIn("hammer"), roleYAML("Another", readPods))
	for path, want := range map[string]string{
		rolesIn("hammer"):                          "hammer/Another hammer/reader",
		authzAPI + "/roles":                        "hammer/Another hammer/reader nail/reader",
		rolesIn("hammer") + "?labelSelector=a%3Db": "hammer/reader",
		authzAPI + "/roles?fieldSelector=metadata.name%3Dreader,metadata.namespace%3Dnail": "nail/reader",
		authzAPI + "/roles?limit=1": "hammer/Another hammer/reader nail/reader",
		rolesIn("empty"):            "",
	} {
		if got := list(path); got != want {
			t.Errorf("%s lists %q, want %q", path, got, want)
		}
	}
	s.refuse(400, "GET", rolesIn("hammer")+"?continue=abc", nil, "continue")
	s.refuse(400, "GET", rolesIn("hammer")+"?fieldSelector=rules%3Dx", nil)

	// Delete, with preconditions.
	s.refuse(409, "DELETE", rolesIn("hammer")+"/reader", `{"preconditions":{"uid":"22222222-2222-2222-2222-222222222222"}}`, "uid")
	s.refuse(409, "DELETE", rolesIn("hammer")+"/reader", `{"preconditions":{"resourceVersion":"1"}}`, "resource version")
	s.must("DELETE", rolesIn("hammer")+"/reader", nil)
	s.refuse(404, "GET", rolesIn("hammer")+"/reader", nil, "roles.authorization.proviso.dev")
	s.refuse(404, "DELETE", rolesIn("hammer")+"/reader", nil)
	s.must("GET", rolesIn("nail")+"/reader", nil)
}

// PO-3: entries keep their own managed fields, so that apply works on them, also of two appliers on one role.
func TestServerSideApplyOfEntries(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	apply := func(manager, body string) answer {
		return s.call("PATCH", rolesIn("hammer")+"/reader?fieldManager="+manager, body, "Content-Type", applyPatch)
	}
	made := apply("alice", roleYAML("reader", readPods))
	if made.code != 201 {
		t.Fatalf("apply that creates: %d %s", made.code, made.message())
	}
	if got := apply("me", roleYAML("reader", readPods)); got.code != 200 {
		t.Fatalf("apply of the same by another: %d %s", got.code, got.message())
	}
	s.idempotent(rolesIn("hammer")+"/reader", roleYAML("reader", readPods))
	apply("me", `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: reader}}`)
	// Bob owns a label; Alice still owns the rules.
	got := apply("bob", `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: reader, labels: {owner: bob}}}`)
	if got.code != 200 || got.at("rules") == nil {
		t.Fatalf("apply of a label: %d %v", got.code, got.body)
	}
	if got := apply("bob", roleYAML("reader", `{verbs: [delete], resourceKinds: [pods]}`)); got.code != 409 || !strings.Contains(got.message(), "alice") {
		t.Errorf("apply of what alice owns: %d %s", got.code, got.message())
	}
	var managers struct {
		Metadata struct {
			ManagedFields []struct{ Manager, Operation string }
		}
	}
	raw := s.must("GET", rolesIn("hammer")+"/reader", nil).raw
	if err := json.Unmarshal(raw, &managers); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range managers.Metadata.ManagedFields {
		names = append(names, m.Manager+"/"+m.Operation)
	}
	slices.Sort(names)
	if strings.Join(names, " ") != "Go-http-client/Update alice/Apply bob/Apply" {
		t.Errorf("managers %v", names)
	}
	// They are stored in the entry, not in the container.
	container := s.must("GET", policyAPI+"/namespaces/hammer/policies/default", nil)
	if container.at("roles", "reader", "metadata", "managedFields") == nil || strings.Contains(fmt.Sprint(container.at("metadata", "managedFields")), "alice") {
		t.Errorf("managed fields are in the wrong place: %v", container.at("metadata"))
	}
	// Alice lets go of the rules: they go away, since nobody else owns them.
	got = apply("alice", `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: reader}}`)
	if got.code != 200 || got.at("rules") != nil || fmt.Sprint(got.at("metadata", "labels")) != "map[owner:bob]" {
		t.Errorf("after alice let go: %d rules %v labels %v", got.code, got.at("rules"), got.at("metadata", "labels"))
	}
	// Two appliers share the users of a binding.
	s.must("POST", rolesIn("hammer"), roleYAML("other", readPods))
	for _, user := range []string{"edgar", "hubert"} {
		got = s.call("PATCH", bindingsIn("hammer")+"/readers?fieldManager="+user, bindingYAML("readers", "hammer", "reader", user), "Content-Type", applyPatch)
		if got.code/100 != 2 {
			t.Fatalf("apply by %s: %d %s", user, got.code, got.message())
		}
	}
	if fmt.Sprint(got.at("userNames")) != "[edgar hubert]" {
		t.Errorf("users %v, want those of both appliers", got.at("userNames"))
	}
	// A schema error is the caller's.
	if got := apply("alice", roleYAML("reader", `{verbs: get}`)); got.code/100 != 4 {
		t.Errorf("apply of a wrong type: %d %s", got.code, got.message())
	}
	if got := apply("alice", roleYAML("reader", `{verbs: [get], resourceKinds: [pods], wehre: "false"}`)); got.code/100 != 4 || !strings.Contains(got.message(), "wehre") {
		t.Errorf("apply of an unknown field: %d %s", got.code, got.message())
	}
}

// PO-4: what makes no sense for an entry is a clear 4xx.
func TestOddRequestsForEntries(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	s.refuse(400, "POST", rolesIn("hammer"), `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: a, resourceVersion: "7"}}`, "metadata.resourceVersion")
	got := s.call("PATCH", rolesIn("hammer")+"/a?fieldManager=me", `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: a, resourceVersion: "7"}}`, "Content-Type", applyPatch)
	if got.code != 409 || !strings.Contains(got.message(), "no longer exists") {
		t.Errorf("apply to a version that is gone: %d %s", got.code, got.message())
	}
	s.must("POST", rolesIn("hammer"), roleYAML("a", readPods))
	s.refuse(400, "DELETE", rolesIn("hammer")+"/a", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, "policies.policy.proviso.dev")
	s.refuse(400, "POST", rolesIn("hammer"), `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: b}}`)
	s.refuse(400, "POST", rolesIn("hammer"), `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: b, namespace: nail}}`, "namespace")
	s.refuse(400, "POST", rolesIn("hammer"), `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: b}, rules: [{verbs: get}]}`)
	s.refuse(422, "POST", rolesIn("hammer"), `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, rules: []}`, "name")
	s.refuse(405, "DELETE", rolesIn("hammer"), nil)
}

// idempotent checks that applying what the field manager "me" has applied writes nothing, even if it was long ago.
func (s *api) idempotent(path, doc string) {
	s.t.Helper()
	obj := s.must("GET", path, nil)
	for _, m := range obj.at("metadata", "managedFields").([]any) {
		m.(map[string]any)["time"] = "2020-01-01T00:00:00Z"
	}
	obj.body["metadata"].(map[string]any)["annotations"] = map[string]any{"changed": "yes"} // times alone are not a change
	before := s.must("PUT", path, obj.body)
	if !strings.Contains(string(before.raw), "2020-01-01") {
		s.t.Fatalf("%s: cannot set the time of the last apply: %s", path, before.raw)
	}
	after := s.must("PATCH", path+"?fieldManager=me", doc, "Content-Type", applyPatch)
	if after.at("metadata", "resourceVersion") != before.at("metadata", "resourceVersion") {
		s.t.Errorf("%s: applying the same again wrote it again:\n%s\n%s", path, before.raw, after.raw)
	}
}

// PO-11: the seed's spellings work with create and with apply, and come back as they were written.
func TestSeedSpellingsOfRestrictions(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	rules := `{verbs: [update], resourceKinds: [DeploymentConfig], attributeRestrictions: {fieldsMutatable: [labels]}},
	          {verbs: ["*"], resourceKinds: [Pod], attributeRestrictions: {kind: sameMinionRestriction}}`
	s.must("POST", rolesIn("hammer"), roleYAML("created", rules))
	got := s.call("PATCH", rolesIn("hammer")+"/applied?fieldManager=me", roleYAML("applied", rules), "Content-Type", applyPatch)
	if got.code != 201 {
		t.Fatalf("apply: %d %s", got.code, got.message())
	}
	for _, name := range []string{"created", "applied"} {
		role := s.must("GET", rolesIn("hammer")+"/"+name, nil)
		if text := fmt.Sprint(role.at("rules")); !strings.Contains(text, "fieldsMutatable:[labels]") || !strings.Contains(text, "kind:sameMinionRestriction") {
			t.Errorf("%s is stored as %s", name, text)
		}
	}
	s.idempotent(rolesIn("hammer")+"/applied", roleYAML("applied", rules))
}

// PO-4: dry run and generated names work as everywhere.
func TestDryRunAndGeneratedNames(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer", "master")
	s.must("POST", rolesIn("master"), roleYAML("view", readPods))
	s.must("POST", rolesIn("hammer")+"?dryRun=All", roleYAML("ghost", readPods))
	s.refuse(404, "GET", rolesIn("hammer")+"/ghost", nil)
	s.must("POST", bindingsIn("hammer")+"?dryRun=All", bindingYAML("ghost", "master", "view", "edgar"))
	s.refuse(404, "GET", policyAPI+"/namespaces/hammer/policybindings/master", nil)
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	before := s.must("GET", rolesIn("hammer")+"/reader", nil)
	s.must("PATCH", rolesIn("hammer")+"/reader?dryRun=All", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergePatch)
	s.must("DELETE", rolesIn("hammer")+"/reader?dryRun=All", nil)
	if after := s.must("GET", rolesIn("hammer")+"/reader", nil); string(after.raw) != string(before.raw) {
		t.Errorf("a dry run changed the role:\n%s\n%s", before.raw, after.raw)
	}
	got := s.must("POST", rolesIn("hammer"), `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {generateName: r-}, rules: []}`)
	if name, _ := got.at("metadata", "name").(string); !strings.HasPrefix(name, "r-") || len(name) < 5 {
		t.Errorf("generated name %q", name)
	}
}

// PO-3: what entries cannot do is said, not ignored.
func TestEntriesHaveNoFinalizers(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	s.refuse(422, "POST", rolesIn("hammer"), `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: a, finalizers: [example.com/x]}}`, "finalizers", "Policy")
	got := s.must("POST", rolesIn("hammer"), `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: "1"}]}}`)
	disowned := func(got answer, warned bool) {
		t.Helper()
		if strings.Contains(strings.Join(got.warnings, " "), "ownerReferences: are dropped") != warned || got.at("metadata", "ownerReferences") != nil {
			t.Errorf("warnings %q, owners %v", got.warnings, got.at("metadata", "ownerReferences"))
		}
	}
	disowned(got, true)
	disowned(s.must("PATCH", rolesIn("hammer")+"/a", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"1"}]}}`, "Content-Type", mergePatch), true)
	disowned(s.must("PATCH", rolesIn("hammer")+"/a", `{"metadata":{"labels":{"x":"y"}}}`, "Content-Type", mergePatch), false)
	// Earlier releases have stored owners, and the garbage collector must not see them.
	owned := metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "1"}}}
	role, _ := roleLayout("master").get(&policy.Policy{Roles: map[string]policy.PolicyRole{"a": {ObjectMeta: owned}}}, "a")
	binding, _ := roleBindingLayout().get(&policy.PolicyBinding{RoleBindings: map[string]policy.PolicyRoleBinding{"a": {ObjectMeta: owned}}}, "a")
	if len(role.OwnerReferences)+len(binding.OwnerReferences) > 0 || len(owned.OwnerReferences) == 0 {
		t.Errorf("stored owners are shown: %v, %v", role.OwnerReferences, binding.OwnerReferences)
	}
	for _, name := range []string{"a/b", "..", "a%b"} {
		s.refuse(422, "POST", rolesIn("hammer"), roleYAML(name, readPods), "metadata.name")
	}
}

// SV-7: a key that no rule has is refused by name, whichever way it is written, and leaves no error of upstream's in
// the log.
func TestUnknownKeysOfRules(t *testing.T) {
	var log bytes.Buffer
	klog.SetOutput(&log)
	t.Cleanup(func() { klog.SetOutput(io.Discard) })
	s := serve(t, &world{})
	s.containers("hammer")
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	for key, rule := range map[string]string{
		"rules[0].foo":                          `{verbs: [get], resourceKinds: [pods], foo: bar}`,
		"rules[0].attributeRestrictions.nosuch": `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {nosuch: {a: [1]}}}`,
	} {
		s.refuse(422, "POST", rolesIn("hammer"), roleYAML("new", rule), key)
		s.refuse(422, "PUT", rolesIn("hammer")+"/reader", roleYAML("reader", rule), key)
		got := s.call("PATCH", rolesIn("hammer")+"/reader?fieldManager=me&force=true", roleYAML("reader", rule), "Content-Type", applyPatch)
		if got.code != 422 || !strings.Contains(got.message(), key) {
			t.Errorf("apply: %d %s", got.code, got.message())
		}
	}
	s.must("PATCH", rolesIn("hammer")+"/reader?fieldManager=me&force=true", roleYAML("reader", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {fieldsMutatable: [labels]}}`), "Content-Type", applyPatch)
	klog.Flush()
	if strings.Contains(log.String(), "SHOULD NOT HAPPEN") {
		t.Errorf("the log has:\n%s", log.String())
	}
}
