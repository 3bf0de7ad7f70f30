package validate

import (
	"strings"
	"testing"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// PO-20: where an effect cannot be stopped, the author of the rule is told.
func TestEffectsAreSaid(t *testing.T) {
	for _, c := range []struct {
		rule policy.PolicyRule
		want string
	}{
		{policy.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"Pod"}}, "pods by scaling"},
		{policy.PolicyRule{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"jobs.batch"}}, "jobs by their ttlSecondsAfterFinished"},
		{policy.PolicyRule{Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}}, ""},
		{policy.PolicyRule{Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}, ""},
		{policy.PolicyRule{Deny: true, Verbs: []string{"*", "-delete"}, ResourceKinds: []string{"pods"}}, ""},
		{policy.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"configmaps"}}, ""},
	} {
		all := strings.Join(Warnings([]policy.PolicyRule{c.rule}, func(policy.PolicyRule) (unserved, guarded []string) { return nil, nil }, false), "\n")
		if strings.Contains(all, "controllers can still delete") != (c.want != "") || !strings.Contains(all, c.want) {
			t.Errorf("%v: %q, want %q", c.rule, all, c.want)
		}
	}
}
