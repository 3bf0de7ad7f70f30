package authzconfig

import (
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"proviso.dev/proviso/internal/features"
)

// PO-7: an authorizer that can allow ahead of Policy voids its denies, which is said; Policy first, or behind what only
// denies, is not.
func TestDeniesVoided(t *testing.T) {
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
		plan, err := parseFile([]byte(file(test.types...)), features.All())
		if err != nil {
			t.Fatalf("%v: %v", test.types, err)
		}
		if got := plan.DeniesVoided(); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%v: %q, want %q in it", test.types, got, test.want)
		}
	}
	if got := (*Plan)(nil).DeniesVoided(); got != "" {
		t.Errorf("a stock server: %q", got)
	}
}

// SV-13: a drop-in that is not told which authorizers there are is safe and says so; one that is told, and a server of
// its own, say nothing.
func TestModesAssumed(t *testing.T) {
	for _, test := range []struct {
		dropIn, given, says bool
	}{
		{dropIn: true, says: true},
		{dropIn: true, given: true},
		{},
	} {
		plan, err := Read(Flags{BuiltInAuthorizationOptions: options.NewBuiltInAuthorizationOptions(), ModesGiven: test.given, DropIn: test.dropIn, Systems: features.All()})
		if err != nil {
			t.Fatal(err)
		}
		if got := plan.ModesAssumed(); test.says != strings.Contains(got, "Node,RBAC is used") || !test.says && got != "" {
			t.Errorf("%+v: %q", test, got)
		}
		if !test.given && (!plan.Has("Node") || !plan.Has("RBAC")) {
			t.Errorf("%+v: %v", test, plan.authorizers)
		}
	}
	if got := (*Plan)(nil).ModesAssumed(); got != "" {
		t.Errorf("a stock server: %q", got)
	}
}
