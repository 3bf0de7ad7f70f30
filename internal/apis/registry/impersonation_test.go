package registry

import (
	"strings"
	"testing"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// CA-19: who writes a condition where it folds is told, and told where it belongs.
func TestFoldedImpersonation(t *testing.T) {
	const when = `impersonatedRequest.resource == "pods"`
	for name, tc := range map[string]struct {
		rule policy.PolicyRule
		want string
	}{
		"a mode":                {policy.PolicyRule{Verbs: []string{"get", "impersonate:arbitrary-node"}, When: when}, "never allows it; put the condition on impersonate-on:arbitrary-node:<verb>"},
		"a mode that is denied": {policy.PolicyRule{Verbs: []string{"impersonate:user-info"}, When: when, Deny: true}, "always denies it"},
		"a mode, no condition":  {policy.PolicyRule{Verbs: []string{"impersonate:arbitrary-node"}}, ""},
		"what is not cached":    {policy.PolicyRule{Verbs: []string{"impersonate", "impersonate-on:arbitrary-node:get"}, When: when}, ""},
	} {
		got := strings.Join(foldedImpersonation([]policy.PolicyRule{tc.rule}), "\n")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
