package matrix

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// NI-8: a role in a namespace grants requests for the Namespace object: the cell of that namespace says so, and that of
// all namespaces says that it is so for some names.
func TestRolesInANamespaceReachItsObject(t *testing.T) {
	ix := ruleset.Build(ruleset.Input{MasterNamespace: "master",
		Roles: []*rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}}}},
		RoleBindings: []*rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "u"}}}}})
	for _, test := range []struct {
		in   []string
		want map[string]plan.Effect
	}{
		{[]string{"a", "b", Elsewhere, ""}, map[string]plan.Effect{"": plan.If, "a": plan.Yes}},
		{[]string{"a"}, map[string]plan.Effect{"a": plan.Yes}},
		{[]string{"b"}, map[string]plan.Effect{}},
	} {
		cells, err := Cells(t.Context(), Input{Index: ix, Server: server{}, Resources: []plan.Resource{{Version: "v1", Resource: "namespaces"}}, Verbs: []string{"create", "delete"}, Namespaces: test.in})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cells {
			if c.Verb != "delete" || test.want[c.Namespace] != c.Access {
				t.Errorf("%v: %+v", test.in, c)
			}
		}
		if len(cells) != len(test.want) {
			t.Errorf("%v: %+v, want %v", test.in, cells, test.want)
		}
	}
}
