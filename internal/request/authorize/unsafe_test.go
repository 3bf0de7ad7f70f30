package authorize

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// PO-20: a delete that no admission sees is refused to callers whose delete depends on the object, and to those who are
// denied any delete, in the master namespace, here or elsewhere.
func TestUnsafeDeletes(t *testing.T) {
	deny := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"secrets"}}
	allow := policyv1alpha1.PolicyRule{Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}}
	some := allow
	some.Where = `resource.metadata.name == "x"`
	in := ruleset.Input{MasterNamespace: "master", CompileRule: compilerOf(t), Kinds: ruleset.NewKinds([]ruleset.Served{
		{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}, {Resource: "secrets", Kind: "Secret", Builtin: true}})}
	for namespace, roles := range map[string]map[string][]policyv1alpha1.PolicyRule{
		"master": {"everywhere": {deny}, "plain": {allow}, "some": {some}},
		"hammer": {"here": {deny}},
		"anvil":  {"elsewhere": {deny}},
	} {
		p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}, Roles: map[string]policyv1alpha1.PolicyRole{}}
		b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace, Namespace: namespace}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for who, rules := range roles {
			p.Roles[who], b.RoleBindings[who] = policyv1alpha1.PolicyRole{Rules: rules}, policyv1alpha1.PolicyRoleBinding{RoleName: who, UserNames: []string{who}}
		}
		in.Policies, in.PolicyBindings = append(in.Policies, p), append(in.PolicyBindings, b)
	}
	gate, rules := readsGate(t), ruleset.Build(in)
	for who, why := range map[string]string{"plain": "", "nobody": "", "some": "conditional", "everywhere": "denied", "here": "denied", "elsewhere": "denied"} {
		attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: VerbUnsafeDelete, APIVersion: "v1", Resource: "configmaps", Namespace: "hammer", Name: "x", ResourceRequest: true}
		got := gate.DeniesUnsafe(requestctx.With(t.Context(), &snapshot.Snapshot{Synced: true, Rules: rules}), attrs)
		if (got == "") != (why == "") || !strings.Contains(got, why) {
			t.Errorf("%s: %q, want %q", who, got, why)
		}
		if gate.DeniesUnsafe(requestctx.With(t.Context(), &snapshot.Snapshot{Synced: true}), attrs) == "" || gate.DeniesUnsafe(t.Context(), attrs) == "" {
			t.Errorf("%s may, without any rules", who)
		}
	}
}
