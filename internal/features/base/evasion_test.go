package base

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/evasion"
	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/state/snapshot"
)

// mark is a condition.
type mark struct{}

// RuleCondition implements ruleset.Condition.
func (mark) RuleCondition() {}

// PO-23: a role or a binding is judged as it will be: its own rules grant and deny updates, too.
func TestEvasionsOfWhatIsWritten(t *testing.T) {
	deny := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}, AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"protected"}}}
	allow, keeps := policyv1alpha1.PolicyRule{Verbs: []string{"update", "delete"}, ResourceKinds: []string{"configmaps"}}, deny
	keeps.Verbs = []string{"update"}
	index := func(rules []policyv1alpha1.PolicyRule, users ...string) *ruleset.Index {
		return ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: matching.NewKinds([]matching.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}}),
			CompileRule: func(ruleset.RoleRef, int, *policyv1alpha1.PolicyRule) (ruleset.Condition, error) { return mark{}, nil },
			Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
				"r": {Rules: rules}, "other": {Rules: []policyv1alpha1.PolicyRule{allow}}}}},
			PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
				"b": {RoleName: "r", UserNames: users}, "other": {RoleName: "other", UserNames: []string{"edgar"}}}}}})
	}
	role := authz.RoleRef{Namespace: "hammer", Name: "r"}
	for _, tc := range []struct {
		name  string
		index *ruleset.Index
		of    registry.EvadableRole
		found bool
	}{
		{"a binding of a role that allows it", index([]policyv1alpha1.PolicyRule{deny, allow}), registry.EvadableRole{Role: role, Rules: []policyv1alpha1.PolicyRule{deny, allow}, Namespace: "hammer", UserNames: []string{"dora"}}, true},
		{"a binding of a role that does not", index([]policyv1alpha1.PolicyRule{deny}), registry.EvadableRole{Role: role, Rules: []policyv1alpha1.PolicyRule{deny}, Namespace: "hammer", UserNames: []string{"dora"}}, false},
		{"a binding of a role that keeps the label", index([]policyv1alpha1.PolicyRule{deny, keeps}), registry.EvadableRole{Role: role, Rules: []policyv1alpha1.PolicyRule{deny, keeps}, Namespace: "hammer", UserNames: []string{"edgar"}}, false},
		{"the first binding in a namespace", index(nil), registry.EvadableRole{Role: role, Rules: []policyv1alpha1.PolicyRule{deny, allow}, Namespace: "anvil", GroupNames: []string{"g"}}, false},
		{"a role that will allow it", index([]policyv1alpha1.PolicyRule{deny}, "dora"), registry.EvadableRole{Role: role, Rules: []policyv1alpha1.PolicyRule{deny, allow}}, true},
		{"a role that will keep the label", index([]policyv1alpha1.PolicyRule{deny}, "edgar"), registry.EvadableRole{Role: role, Rules: []policyv1alpha1.PolicyRule{deny, keeps}}, false},
		{"a role that will not", index([]policyv1alpha1.PolicyRule{deny, keeps}, "edgar"), registry.EvadableRole{Role: role, Rules: []policyv1alpha1.PolicyRule{deny}}, true},
		{"a role that nobody has", index(nil), registry.EvadableRole{Role: role, Rules: []policyv1alpha1.PolicyRule{deny, allow}}, false},
	} {
		found := false
		for _, in := range bound(&snapshot.Snapshot{Rules: tc.index}, tc.of) {
			found = found || len(evasion.Find(in)) > 0
		}
		if found != tc.found {
			t.Errorf("%s: %v", tc.name, found)
		}
	}
}
