package policycodec

import (
	"encoding/json"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// readBack is what an informer gets of stored bytes: through the transformer, the codec and the wire.
func readBack[T runtime.Object](t *testing.T, kind, namespace, name, text string, into T) T {
	t.Helper()
	r := recovering{identity.NewEncryptCheckTransformer(), VersionedScheme(), StorageCodec(), policy.SchemeGroupVersion.WithKind(kind), "/registry/x/"}
	data, _, err := r.TransformFromStorage(t.Context(), []byte(text), value.DefaultContext("/registry/x/"+namespace+"/"+name))
	if err != nil {
		t.Fatal(err)
	}
	obj, err := runtime.Decode(StorageCodec(), data)
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	wire, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(wire, into); err != nil {
		t.Fatalf("%s: %v", wire, err)
	}
	return into
}

const (
	denyRule  = `{"deny":true,"verbs":["delete"],"resourceKinds":["pods"]}`
	allowRule = `{"verbs":["*"],"resourceKinds":["*"]}`
	goodRoles = `"roles":{"guard":{"rules":[` + denyRule + `]},"dev":{"rules":[` + allowRule + `]}}`
	goodBinds = `"roleBindings":{"guard":{"roleName":"guard","userNames":["alice"]},"dev":{"roleName":"dev","userNames":["alice","bob"]}}`
)

// shapes are stored objects of another shape than this version writes. In each, something may have denied alice the
// deletion of pods.
var shapes = []struct {
	name, policy, binding string
	// bob is who the deny rule was not for; everybody reports whether it reaches him all the same, since nobody can
	// tell.
	everybody bool
}{
	{name: "rules as a string", policy: current + storedPolicy + `,"roles":{"guard":{"rules":"none"},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "rules as an object", policy: current + storedPolicy + `,"roles":{"guard":{"rules":{"0":` + denyRule + `}},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a role as a string", policy: current + storedPolicy + `,"roles":{"guard":"deny delete pods","dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a role as a list", policy: current + storedPolicy + `,"roles":{"guard":[` + denyRule + `],"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a rule as a string", policy: current + storedPolicy + `,"roles":{"guard":{"rules":["deny delete pods"]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a rule as a list", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[["deny"]]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "verbs as an object", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"deny":true,"verbs":{"delete":true},"resourceKinds":["pods"]}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "kinds as a string", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"deny":true,"verbs":["delete"],"resourceKinds":"pods"}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "names as a number", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"deny":true,"verbs":["delete"],"resourceKinds":["pods"],"resourceNames":7}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "deny as a string", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"deny":"true","verbs":["delete"],"resourceKinds":["pods"]}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "deny in another case", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"Deny":true,"verbs":["delete"],"resourceKinds":["pods"]}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "an unknown field", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"deny":true,"verbs":["delete"],"resourceKinds":["pods"],"until":"noon"}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a field that only the server writes", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"deny":true,"verbs":["delete"],"resourceKinds":["pods"],"unreadable":true}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a role twice", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[` + denyRule + `]},"guard":{},"dev":{"rules":[` + allowRule + `]}}}`, everybody: true},
	{name: "roles as a list", policy: current + storedPolicy + `,"roles":[{"name":"guard"}]}`, everybody: true},
	{name: "roles as a string", policy: current + storedPolicy + `,"roles":"guard"}`, everybody: true},
	{name: "another version", policy: newer + storedPolicy + `,"spec":{` + goodRoles + `}}`, everybody: true},
	{name: "another kind", policy: current + `"kind":"Novelty","metadata":{"name":"default","namespace":"hammer"},` + goodRoles + `}`, everybody: true},
	{name: "another name", policy: current + `"kind":"Policy","metadata":{"name":"default","namespace":"elsewhere"},` + goodRoles + `}`, everybody: true},
	{name: "metadata as a list", policy: current + `"kind":"Policy","metadata":[],` + goodRoles + `}`, everybody: true},
	{name: "null", policy: `null`, everybody: true},
	{name: "nothing", policy: ` `, everybody: true},
	{name: "truncated", policy: (current + storedPolicy + `,` + goodRoles + `}`)[:180], everybody: true},
	{name: "binary", policy: "\x00\x01\xfe\xff\x80", everybody: true},
	{name: "protobuf", policy: "k8s\x00\x0a\x17\x0a\x0apolicy/v1\x12\x06Policy\x12\xff", everybody: true},
	{name: "nested too deep", policy: strings.Repeat("[", 20_000), everybody: true},

	{name: "roles inside a spec", policy: current + storedPolicy + `,"spec":{` + goodRoles + `}}`, everybody: true},
	{name: "roles inside the metadata", policy: current + strings.TrimSuffix(storedPolicy, "}") + `,` + goodRoles + `}}`, everybody: true},
	{name: "an unknown field beside the roles", policy: current + storedPolicy + `,"also":[],` + goodRoles + `}`, everybody: true},
	{name: "an unknown field of the status", policy: current + storedPolicy + `,"status":{"later":{}},` + goodRoles + `}`, everybody: true},
	{name: "rules inside a spec", policy: current + storedPolicy + `,"roles":{"guard":{"spec":{"rules":[` + denyRule + `]}},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "rules inside the metadata", policy: current + storedPolicy + `,"roles":{"guard":{"metadata":{"rules":[` + denyRule + `]}},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a second list of rules", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[],"denies":[` + denyRule + `]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a role that is null", policy: current + storedPolicy + `,"roles":{"guard":null,"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a rule that is null", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[null]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "effect in place of deny", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"effect":"Deny","verbs":["delete"],"resourceKinds":["pods"]}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a rule inside a spec", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"spec":` + denyRule + `}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "another name for verbs", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"deny":true,"actions":["delete"],"resourceKinds":["pods"]}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "another name for kinds", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"deny":true,"verbs":["delete"],"kinds":["pods"]}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "an unknown restriction", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"verbs":["delete"],"resourceKinds":["pods"],"attributeRestrictions":{"effect":"Deny"}}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a rule that is not enforced and has an unknown field", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"deny":true,"verbs":["delete"],"resourceKinds":["pods"],"enforcement":"Shadow","from":"noon"}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a note that only the server makes", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"verbs":["delete"],"resourceKinds":["pods"],"quarantined":"x"}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "an unknown field and verbs that cannot be read", policy: current + storedPolicy + `,"roles":{"guard":{"rules":[{"effect":"Deny","verbs":{"in":["delete"]},"resourceKinds":["pods"]}]},"dev":{"rules":[` + allowRule + `]}}}`},
	{name: "a list of harmless fields that cannot be read", policy: current + storedPolicy + `,"ignorable":"all",` + goodRoles + `}`, everybody: true},
	{name: "a list of harmless fields that names known ones", policy: current + storedPolicy + `,"ignorable":[".roles[].rules[].deny",".roles[].rules[].Deny",".roles"],"roles":{"guard":{"rules":[{"Deny":true,"verbs":["delete"],"resourceKinds":["pods"]}]},"dev":{"rules":[` + allowRule + `]}}}`},

	{name: "bindings inside a spec", binding: current + storedBinding + `,"spec":{` + goodBinds + `}}`, everybody: true},
	{name: "an unknown field of policyRef", binding: current + storedBinding + `,"policyRef":{"cluster":"a"},` + goodBinds + `}`, everybody: true},
	{name: "subjects in place of userNames", binding: current + storedBinding + `,"roleBindings":{"guard":{"roleName":"guard","subjects":[{"kind":"User","name":"alice"}]},"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`, everybody: true},
	{name: "groups beside userNames", binding: current + storedBinding + `,"roleBindings":{"guard":{"roleName":"guard","userNames":["eve"],"groups":["a"]},"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`, everybody: true},
	{name: "a binding inside a spec", binding: current + storedBinding + `,"roleBindings":{"guard":{"spec":{"roleName":"guard","userNames":["alice"]}},"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`, everybody: true},
	{name: "roleRef in place of roleName", binding: current + storedBinding + `,"roleBindings":{"guard":{"roleRef":{"name":"guard"},"userNames":["alice"],"groupNames":[]},"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`},
	{name: "a binding that is null", binding: current + storedBinding + `,"roleBindings":{"guard":null,"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`, everybody: true},
	{name: "users as a string", binding: current + storedBinding + `,"roleBindings":{"guard":{"roleName":"guard","userNames":"alice"},"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`, everybody: true},
	{name: "a binding as a string", binding: current + storedBinding + `,"roleBindings":{"guard":"alice","dev":{"roleName":"dev","userNames":["alice","bob"]}}}`, everybody: true},
	{name: "the role's name as an object", binding: current + storedBinding + `,"roleBindings":{"guard":{"roleName":{"name":"guard"},"userNames":["alice"]},"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`},
	{name: "a binding with an unknown field", binding: current + storedBinding + `,"roleBindings":{"guard":{"roleName":"guard","userNames":["alice"],"until":"noon"},"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`},
	{name: "bindings as a list", binding: current + storedBinding + `,"roleBindings":[]}`, everybody: true},
	{name: "a binding twice", binding: current + storedBinding + `,"roleBindings":{"guard":{"roleName":"guard","userNames":["alice"]},"guard":{},"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`, everybody: true},
	{name: "policyRef as a string", binding: current + storedBinding + `,"policyRef":"hammer",` + goodBinds + `}`, everybody: true},
	{name: "bindings of another version", binding: newer + storedBinding + `,"spec":{` + goodBinds + `}}`, everybody: true},
	{name: "binary bindings", binding: "\x00\x01", everybody: true},
}

// SV-8, PO-25: what cannot be read or is not known denies: a role to its subjects, a binding without readable subjects
// to everybody, a container to its namespace, except what a cluster-wide grant allows. Nothing is lost beyond that:
// another namespace is as it was.
func TestUnreadableDenies(t *testing.T) {
	goodPolicy, goodBinding := current+storedPolicy+`,`+goodRoles+`}`, current+storedBinding+`,`+goodBinds+`}`
	type fixture struct{ policy, binding string }
	build := func(f fixture, namespace string) *ruleset.Index {
		if f.policy == "" {
			f.policy = goodPolicy
		}
		if f.binding == "" {
			f.binding = goodBinding
		}
		move := func(text string) string {
			if namespace == "master" { // a grant there would be cluster-wide
				text = strings.ReplaceAll(text, `"alice","bob"`, `"nobody"`)
			}
			return strings.ReplaceAll(text, `"hammer"`, `"`+namespace+`"`)
		}
		elsewhere := func(text string) string { return strings.ReplaceAll(text, `"hammer"`, `"anvil"`) }
		local := &policy.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "spare", Name: "default"}}
		localBinding := &policy.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "spare", Name: "spare"}}
		if namespace == "master" {
			readBack(t, "Policy", "hammer", "default", current+storedPolicy+`,"roles":{"dev":{"rules":[`+allowRule+`]}}}`, local)
			readBack(t, "PolicyBinding", "hammer", "hammer", current+storedBinding+`,"roleBindings":{"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`, localBinding)
		}
		return ruleset.Build(ruleset.Input{MasterNamespace: "master",
			Policies: []*policy.Policy{local,
				readBack(t, "Policy", namespace, "default", move(f.policy), &policy.Policy{}), readBack(t, "Policy", "anvil", "default", elsewhere(goodPolicy), &policy.Policy{})},
			PolicyBindings: []*policy.PolicyBinding{localBinding,
				readBack(t, "PolicyBinding", namespace, namespace, move(f.binding), &policy.PolicyBinding{}), readBack(t, "PolicyBinding", "anvil", "anvil", elsewhere(goodBinding), &policy.PolicyBinding{})},
			ClusterRoles:        []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}},
			ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "all"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "carla"}}}},
		})
	}
	allowed := func(ix *ruleset.Index, who, verb, namespace string) bool {
		return ix.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who, Groups: []string{user.AllAuthenticated}}, Verb: verb, Namespace: namespace,
			APIVersion: "v1", Resource: "pods", Name: "p", ResourceRequest: true}).Certainty == ruleset.Always
	}
	for _, tc := range shapes {
		for _, namespace := range []string{"hammer", "master"} {
			t.Run(tc.name+" in "+namespace, func(t *testing.T) {
				ix := build(fixture{tc.policy, tc.binding}, namespace)
				if allowed(ix, "alice", "delete", "hammer") {
					t.Error("alice may delete pods: the deny is lost")
				}
				if ok := allowed(ix, "bob", "delete", "hammer"); ok == tc.everybody {
					t.Errorf("bob may delete pods: %v", ok)
				}
				if !allowed(ix, "carla", "delete", "hammer") {
					t.Error("carla, who holds it for the whole cluster, may not delete pods")
				}
				if tc.policy != "" && len(ix.Problems()) == 0 { // a binding says so itself
					t.Error("nothing says that something is wrong")
				}
				if namespace == "hammer" && (!allowed(ix, "bob", "delete", "anvil") || allowed(ix, "alice", "delete", "anvil")) {
					t.Error("another namespace is concerned")
				}
				for _, p := range ix.Problems() {
					if strings.Contains(p.Error(), "\x00") {
						t.Errorf("%q", p.Error())
					}
				}
			})
		}
	}
	// Twin: well-formed, it denies alice and nobody else, and is mended by being well-formed again.
	good := build(fixture{}, "hammer")
	if allowed(good, "alice", "delete", "hammer") || !allowed(good, "bob", "delete", "hammer") || !allowed(good, "alice", "get", "hammer") || len(good.Problems()) != 0 {
		t.Errorf("well-formed: %v", good.Problems())
	}
	bad := build(fixture{policy: "null"}, "hammer")
	mended := bad.Apply(ruleset.Put(readBack(t, "Policy", "hammer", "default", goodPolicy, &policy.Policy{})))
	gone := bad.Apply(ruleset.Delete(&policy.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}}))
	if !allowed(mended, "bob", "delete", "hammer") || allowed(mended, "alice", "delete", "hammer") || len(mended.Problems()) != 0 {
		t.Errorf("mended: %v", mended.Problems())
	}
	if allowed(gone, "bob", "delete", "hammer") || gone.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "bob", Groups: []string{user.AllAuthenticated}},
		Verb: "delete", Namespace: "hammer", Resource: "pods", ResourceRequest: true}).Deny.Found() {
		t.Error("deleted, it still denies")
	}
}

// A hard deny beside something unreadable does not yield.
func TestUnreadableHidesNoDeny(t *testing.T) {
	p := readBack(t, "Policy", "master", "default", strings.ReplaceAll(current+storedPolicy, "hammer", "master")+`,"roles":{"guard":{"rules":["what",`+denyRule+`]}}}`, &policy.Policy{})
	b := readBack(t, "PolicyBinding", "master", "master", strings.ReplaceAll(current+storedBinding, "hammer", "master")+`,`+goodBinds+`}`, &policy.PolicyBinding{})
	ix := ruleset.Build(ruleset.Input{MasterNamespace: "master", Policies: []*policy.Policy{p}, PolicyBindings: []*policy.PolicyBinding{b},
		ClusterRoles:        []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "all"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "alice"}}}}})
	for verb, want := range map[string]bool{"delete": false, "get": true} {
		got := ix.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: verb, Namespace: "x", Resource: "pods", ResourceRequest: true})
		if (got.Certainty == ruleset.Always) != want {
			t.Errorf("%s: %v", verb, got.Certainty)
		}
	}
}

// PO-25: a role that is bound, and that is missing from a policy of which something is not understood, may be in that.
// It denies to its subjects until the policy is understood again. Twin: in a policy that is understood, it is just
// missing.
func TestRoleInWhatIsNotUnderstood(t *testing.T) {
	binding := readBack(t, "PolicyBinding", "hammer", "hammer", current+storedBinding+`,"roleBindings":{"guard":{"roleName":"guard","userNames":["alice"]},"dev":{"roleName":"dev","userNames":["alice","bob"]}}}`, &policy.PolicyBinding{})
	dev := `"dev":{"rules":[` + allowRule + `]}`
	read := func(roles string) *policy.Policy {
		return readBack(t, "Policy", "hammer", "default", current+storedPolicy+`,"roles":{`+roles+`}}`, &policy.Policy{})
	}
	may := func(ix *ruleset.Index, who string) bool {
		return ix.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who, Groups: []string{user.AllAuthenticated}}, Verb: "delete", Namespace: "hammer",
			APIVersion: "v1", Resource: "pods", Name: "p", ResourceRequest: true}).Certainty == ruleset.Always
	}
	for _, strange := range []string{`"items":[{"name":"guard","rules":[` + denyRule + `]}]`, `"more":{"guard":{"rules":[` + denyRule + `]}}`} {
		bad, good := read(dev+`,`+strange), read(dev)
		built := ruleset.Build(ruleset.Input{MasterNamespace: "master", Policies: []*policy.Policy{bad}, PolicyBindings: []*policy.PolicyBinding{binding}})
		empty := ruleset.Build(ruleset.Input{MasterNamespace: "master"})
		for name, ix := range map[string]*ruleset.Index{
			"built": built, "the binding comes later": empty.Apply(ruleset.Put(bad)).Apply(ruleset.Put(binding)),
			"the policy comes later": empty.Apply(ruleset.Put(binding)).Apply(ruleset.Put(bad)), "it was understood": empty.Apply(ruleset.Put(good), ruleset.Put(binding)).Apply(ruleset.Put(bad)),
		} {
			if may(ix, "alice") || !may(ix, "bob") {
				t.Errorf("%s, %s: alice %v, bob %v", strange, name, may(ix, "alice"), may(ix, "bob"))
			}
			mended := ix.Apply(ruleset.Put(good))
			if !may(mended, "alice") || !may(mended, "bob") || len(mended.Problems()) != 1 {
				t.Errorf("%s, %s: mended: alice %v, bob %v, %v", strange, name, may(mended, "alice"), may(mended, "bob"), mended.Problems())
			}
		}
	}
}
