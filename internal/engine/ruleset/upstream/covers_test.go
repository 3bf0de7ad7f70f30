package upstream_test

import (
	"math/rand"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	covers "k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"proviso.dev/proviso/internal/engine/ruleset/escalation"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// PO-12: whatever upstream's RBAC lets somebody grant, the escalation check does too, as long as only RBAC is in use.
func TestCoversWhatUpstreamCovers(t *testing.T) {
	accepted := 0
	law.Rounds(t, 1500, func(seed int64) int {
		pick := refmodel.Pick(rand.New(rand.NewSource(seed)).Intn)
		w := pick.World()
		w.Policies, w.PolicyBindings = nil, nil
		u, ns := &user.DefaultInfo{Name: "bob", Groups: []string{"team-b"}}, []string{"", "hammer"}[pick(2)]
		rules := []rbacv1.PolicyRule{pick.RBACRule()}
		if pick(2) == 0 {
			rules = []rbacv1.PolicyRule{{Verbs: []string{refmodel.Verbs[pick(7)]}, APIGroups: []string{refmodel.APIGroups[pick(3)]}, Resources: []string{refmodel.Plurals[pick(5)]}}}
		}
		resolver, _ := validation.NewTestRuleResolver(w.Roles, w.RoleBindings, w.ClusterRoles, w.ClusterRoleBindings)
		held, _ := resolver.RulesFor(t.Context(), u, ns)
		up, _ := covers.Covers(held, rules)
		err := escalation.Covers(indexOf(w), escalation.Grant{User: u, Namespace: ns, RBAC: rules})
		if up && err != nil {
			t.Fatalf("seed %d: upstream lets %v be granted with %v, we do not: %v", seed, rules, held, err)
		}
		if up {
			accepted++
		}
		return 1
	})
	if accepted < 100 {
		law.TooFew(t, "%d grants accepted: too few to prove anything", accepted)
	}
}
