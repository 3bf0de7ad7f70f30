package ruleset

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

type scopesOf map[schema.GroupResource]bool

func (s scopesOf) Namespaced(gr schema.GroupResource) bool { return s[gr] }

func placeRole(ns string, names ...string) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "r"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}, ResourceNames: names}}}
}

func placeBinding(ns, kind, to string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "b"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: to}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"}}
}

// RD-11, RD-12, RD-13: the index knows in which namespaces somebody has a right, by name only if it is asked so, and
// what everybody has does not count as one. RD-14: a change means the same for everybody whom it does not touch.
func TestPlaces(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	ix := Build(Input{MasterNamespace: "master", Kinds: matching.NewKinds([]matching.Served{{Resource: "pods", Kind: "Pod", Builtin: true}}),
		Roles:        []*rbacv1.Role{placeRole("a"), placeRole("b", "x"), placeRole("c")},
		RoleBindings: []*rbacv1.RoleBinding{placeBinding("a", "User", "ann"), placeBinding("b", "User", "ann"), placeBinding("c", "Group", "system:authenticated")}})
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{"system:authenticated"}}
	var q Query
	q.Reset(ix, &authorizer.AttributesRecord{User: ann, Verb: "list", Resource: "pods", ResourceRequest: true})
	if got := q.Places(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("places: %s", got)
	}
	holds := &Holds{RBAC: true, Served: scopesOf{pods: true}}
	for ns, want := range map[string][3]bool{"a": {true, true, true}, "b": {false, true, true}, "c": {true, true, false}, "d": {}} {
		q.req.ByName = false
		plain, _ := q.In(ns)
		q.ByName()
		named, _ := q.In(ns)
		if got := [3]bool{plain, named, holds.In(&q, ns)}; got != want {
			t.Errorf("%s: %v, want %v", ns, got, want)
		}
	}
	if (&Holds{RBAC: true, Served: scopesOf{}}).In(&q, "a") || (&Holds{Policy: true, Served: scopesOf{pods: true}}).In(&q, "a") {
		t.Error("a right to what is in no namespace, or by a tier that does not count, is one")
	}
	bob := &user.DefaultInfo{Name: "bob"}
	for name, tc := range map[string]struct {
		change   Change
		ann, bob bool
	}{
		"nothing":             {Put(placeRole("d")), true, true},
		"another's binding":   {Put(placeBinding("d", "User", "bob")), true, false},
		"a role":              {Put(placeRole("a", "y")), false, true},
		"a binding":           {Put(placeBinding("d", "User", "ann")), false, true},
		"everybody's":         {Put(placeBinding("d", "Group", "system:authenticated")), false, true},
		"a role of a group's": {Put(placeRole("c", "z")), false, true},
	} {
		next := ix.Apply(tc.change)
		if got := [2]bool{ix.SameFor(ann, next), ix.SameFor(bob, next)}; got != [2]bool{tc.ann, tc.bob} {
			t.Errorf("%s: %v", name, got)
		}
	}
}
