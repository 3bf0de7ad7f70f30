package escalation

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// PO-12: what is too large to be compared as Kubernetes does is not taken for held, and neither is nothing at all.
func TestTooLargeIsNotCovered(t *testing.T) {
	names := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("n", i))
		}
		return all
	}
	rule := func(verbs, resources int) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: names(verbs), APIGroups: []string{""}, Resources: names(resources)}
	}
	everything := rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
	for _, tc := range []struct {
		name         string
		held, wanted []rbacv1.PolicyRule
		want         bool
	}{
		{"held", []rbacv1.PolicyRule{everything}, []rbacv1.PolicyRule{rule(3, 3)}, true},
		{"not held", []rbacv1.PolicyRule{rule(1, 1)}, []rbacv1.PolicyRule{rule(3, 3)}, false},
		{"one rule that is too large", []rbacv1.PolicyRule{everything}, []rbacv1.PolicyRule{rule(1025, 1025)}, false},
		{"rules that are too large together", []rbacv1.PolicyRule{everything}, []rbacv1.PolicyRule{rule(1024, 1000), rule(1024, 1000)}, false},
		{"too much together with what is held", []rbacv1.PolicyRule{everything, everything}, []rbacv1.PolicyRule{rule(1024, 1000)}, false},
		{"nothing", []rbacv1.PolicyRule{everything}, nil, false},
	} {
		if got := coversRBAC(tc.held, tc.wanted); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
