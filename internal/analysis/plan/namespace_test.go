package plan

import (
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// NI-8, TR-18: a request for a Namespace object is made in that namespace, so a role there grants it.
func TestRolesInANamespaceReachItsObject(t *testing.T) {
	rules := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}}
	index := func(bound bool, kind string) *ruleset.Index {
		in := ruleset.Input{MasterNamespace: "master", CompileRule: compiler().CompileRule, Limits: ruleset.DefaultLimits(),
			ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: rules}}}
		ref, who := rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}, []rbacv1.Subject{{Kind: "User", Name: "u"}}
		switch {
		case bound && kind == "RoleBinding":
			in.RoleBindings = []*rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, RoleRef: ref, Subjects: who}}
		case bound:
			in.ClusterRoleBindings = []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: ref, Subjects: who}}
		}
		return ruleset.Build(in)
	}
	for kind, want := range map[string][]string{
		"RoleBinding":        {"delete namespaces a", "get namespaces a"},
		"ClusterRoleBinding": {"create namespaces ", "delete namespaces ", "get namespaces "},
	} {
		for _, gains := range []bool{true, false} {
			in := Input{Before: index(!gains, kind), After: index(gains, kind), Server: server{}, Comparer: &compare.Comparer{Cache: compiler().Cache},
				Resources: []Resource{{Version: "v1", Resource: "namespaces"}}, Verbs: []string{"get", "create", "delete"}}
			changes, err := Changes(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				got = append(got, fmt.Sprintf("%s %s %s", c.Action.Verb, c.Action.Resource, c.Action.Name))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s, gains %v: %q, want %q", kind, gains, got, want)
			}
		}
	}
}

// TR-18: a list or watch can name its object by a field selector, so a rule with names grants it. A request to delete a
// collection never has a name.
func TestListsByName(t *testing.T) {
	index := func(verbs ...string) *ruleset.Index {
		return ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: compiler().CompileRule, Limits: ruleset.DefaultLimits(),
			Roles: []*rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"},
				Rules: []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"tls"}}}}},
			RoleBindings: []*rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "u"}}}}})
	}
	changes, err := Changes(t.Context(), Input{Before: index("use"), After: index("use", "list", "watch", "deletecollection"), Server: server{}, Comparer: &compare.Comparer{Cache: compiler().Cache},
		Resources: []Resource{{Version: "v1", Resource: "secrets", Namespaced: true}}, Verbs: []string{"list", "watch", "deletecollection"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprintf("%s %s in %s %s", c.Action.Verb, c.Action.Name, c.Action.Namespace, c.After))
	}
	if want := []string{"list tls in a Yes", "watch tls in a Yes"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
