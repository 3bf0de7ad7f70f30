package server

import (
	"strings"
	"testing"
)

// PO-7: an authorizer that can allow ahead of Policy voids its denies, which is said; Policy first, or behind what only denies, is not.
func TestDeniesVoided(t *testing.T) {
	if err := RegisterFeatures(); err != nil {
		t.Fatal(err)
	}
	file := func(types ...string) string {
		var b strings.Builder
		b.WriteString("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n")
		for _, kind := range types {
			b.WriteString("- {type: " + kind + ", name: " + strings.ToLower(kind) + "}\n")
		}
		return b.String()
	}
	for _, test := range []struct {
		types []string
		want  string
	}{
		{[]string{"RBAC", "Policy"}, "what rbac allows"},
		{[]string{"Node", "RBAC", "Policy"}, "what node, rbac allows"},
		{[]string{"AlwaysAllow", "Policy"}, "what alwaysallow allows"},
		{[]string{"Policy", "Node", "RBAC"}, ""},
		{[]string{"Node", "RBAC"}, ""}, // Policy is put first
	} {
		plan, err := parseAuthzFile([]byte(file(test.types...)))
		if err != nil {
			t.Fatalf("%v: %v", test.types, err)
		}
		if got := plan.deniesVoided(); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%v: %q, want %q in it", test.types, got, test.want)
		}
	}
	if got := (*authzPlan)(nil).deniesVoided(); got != "" {
		t.Errorf("a stock server: %q", got)
	}
}
