package ruleset

import (
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/persist"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// mutate changes the world in one place and returns the change.
func mutate(pick refmodel.Pick, w *refmodel.World) Change {
	name := fmt.Sprint("r", pick(4))
	bind := fmt.Sprint("b", pick(4))
	ns := refmodel.Namespaces[pick(3)]
	gone := pick(3) == 0
	switch pick(7) {
	case 0:
		return swap(&w.Policies, pick.Policy(ns), gone)
	case 1:
		return swap(&w.PolicyBindings, pick.PolicyBinding(ns, refmodel.Namespaces[pick(3)]), gone)
	case 2:
		return swap(&w.Roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Rules: []rbacv1.PolicyRule{pick.RBACRule()}}, gone)
	case 3:
		return swap(&w.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{pick.RBACRule()}}, gone)
	case 4:
		return swap(&w.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: bind}, RoleRef: pick.RoleRef(), Subjects: []rbacv1.Subject{pick.Subject(), pick.Subject()}}, gone)
	case 5:
		return swap(&w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: bind}, RoleRef: pick.RoleRef(), Subjects: []rbacv1.Subject{pick.Subject()}}, gone)
	}
	w.Served = pick.World().Served
	return SetKinds(kindsOf(w))
}

// swap replaces or removes an object in a list and returns the change. The list is a new one.
func swap[T interface {
	Object
	metav1.Object
}](list *[]T, o T, gone bool) Change {
	*list = slices.DeleteFunc(slices.Clone(*list), func(old T) bool { return old.GetNamespace() == o.GetNamespace() && old.GetName() == o.GetName() })
	if gone {
		return Delete(o)
	}
	*list = append(*list, o)
	return Put(o)
}

// PO-18: an index that has grown through any sequence of changes, one by one or several at once, decides like one built
// from scratch; and the indexes it came from still decide as they did.
func TestApplyEqualsBuild(t *testing.T) {
	law.Rounds(t, 40, func(seed int64) int { return applyEqualsBuild(t, seed, picker(seed)) })
}

func FuzzApplyEqualsBuild(f *testing.F) {
	law.Fuzz(f, func(t *testing.T, pick func(int) int) { applyEqualsBuild(t, 0, pick) })
}

func applyEqualsBuild(t *testing.T, seed int64, pick refmodel.Pick) (cases int) {
	w := pick.World()
	ix := Build(inputOf(w))
	type past struct {
		ix *Index
		w  refmodel.World
	}
	var history []past
	for step := range 25 {
		history = append(history, past{ix, *w})
		var changes []Change
		for range 1 + pick(4) {
			changes = append(changes, mutate(pick, w))
		}
		ix = ix.Apply(changes...)
		for range 10 {
			requireSame(t, ix, w, pick.Request(), fmt.Sprint("seed ", seed, " step ", step))
		}
		requireSameShape(t, ix, Build(inputOf(w)))
	}
	for i, p := range history {
		for range 4 {
			requireSame(t, p.ix, &p.w, pick.Request(), fmt.Sprint("seed ", seed, " history ", i))
		}
	}
	return 25 * 14
}

// requireSameShape compares what is not visible in decisions: nothing leaks and nothing is forgotten.
func requireSameShape(t *testing.T, got, want *Index) {
	t.Helper()
	type counts struct{ ids, bindings, subjects, scopes, bound, keys, missing, troubled, slots int }
	of := func(ix *Index) counts {
		return counts{ix.ids.Len(), ix.bindings.Len(), ix.subjects.Len(), ix.scopes.Len(), ix.bound.Len(), ix.keys.Len(), ix.missing,
			ix.troubled.Len(), ix.slots.Len()}
	}
	if of(got) != of(want) {
		t.Fatalf("after changes %+v, from scratch %+v", of(got), of(want))
	}
	text := func(ix *Index) (lines []string) {
		for _, p := range ix.Problems() {
			lines = append(lines, p.Error())
		}
		return lines
	}
	if !slices.Equal(text(got), text(want)) {
		t.Fatalf("problems after changes %q, from scratch %q", text(got), text(want))
	}
	want.keys.Each(func(k ruleKey, list persist.Roster[keyEntry]) bool {
		have, _ := got.keys.Get(got.hashKey(k), k)
		if have.Len() != list.Len() {
			t.Fatalf("key %+v lists %d roles, from scratch %d", k, have.Len(), list.Len())
		}
		return true
	})
}

// PO-18: deleting everything leaves an empty index.
func TestApplyDeletesEverything(t *testing.T) {
	w := picker(7).World()
	ix := Build(inputOf(w))
	var changes []Change
	for _, o := range w.Policies {
		changes = append(changes, Delete(o))
	}
	for _, o := range w.PolicyBindings {
		changes = append(changes, Delete(&policyv1alpha1.PolicyBinding{ObjectMeta: o.ObjectMeta}))
	}
	for _, o := range w.Roles {
		changes = append(changes, Delete(o))
	}
	for _, o := range w.ClusterRoles {
		changes = append(changes, Delete(o))
	}
	for _, o := range w.RoleBindings {
		changes = append(changes, Delete(o))
	}
	for _, o := range w.ClusterRoleBindings {
		changes = append(changes, Delete(o))
	}
	if ix.Bindings() == 0 {
		t.Fatal("the world is empty, nothing is tested")
	}
	requireSameShape(t, ix.Apply(changes...), Build(Input{MasterNamespace: w.Master}))
}

// Two changes of the same object in one Apply: the later one holds.
func TestApplyLastChangeWins(t *testing.T) {
	role := func(verb string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}}}
	}
	bind := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "alice"}}}
	ix := Build(Input{}).Apply(Put(role("get")), Put(bind), Put(role("list")), Delete(bind), Put(bind))
	for verb, want := range map[string]Certainty{"get": Never, "list": Always} {
		if got := ix.Decide(ask("alice", verb, "pods")).Certainty; got != want {
			t.Errorf("%s: %v, want %v", verb, got, want)
		}
	}
}
