package readfilter

import (
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/state/snapshot"
)

func touchRole(name string, names ...string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names}}}
}

func touchBinding(ns, role, kind, to string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: to}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: to}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
}

// opened is a watch that is checked by a policy.
func opened(r *rechecks, policy *snapshot.Snapshot, name, selector string, groups ...string) *watching {
	w := &watching{narrowing: seen(), again: make(chan struct{}, 1), expired: make(chan struct{})}
	w.checked.Store(policy)
	r.add(w, &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name, Groups: groups}, Verb: "watch", APIVersion: "v1", Resource: "configmaps", ResourceRequest: true, Path: selector})
	return w
}

// RD-14: a policy change releases the watches of callers whom it does not touch at once, and asks about the others. Who
// has the same name and other groups is another caller.
func TestUntouchedWatchesAreNotAsked(t *testing.T) {
	o := &oracle{}
	r := newRechecks(o)
	first := &snapshot.Snapshot{Generation: 1, Rules: ruleset.Build(ruleset.Input{MasterNamespace: "master", ClusterRoles: []*rbacv1.ClusterRole{touchRole("read"), touchRole("other")},
		RoleBindings: []*rbacv1.RoleBinding{touchBinding("a", "read", "User", "ann"), touchBinding("b", "read", "User", "bob"), touchBinding("c", "read", "Group", "red")}})}
	ann, ann2, bob := opened(r, first, "ann", "1"), opened(r, first, "ann", "2"), opened(r, first, "bob", "1")
	red, blue := opened(r, first, "eve", "1", "red"), opened(r, first, "eve", "1", "blue")
	before, all := first, []*watching{ann, ann2, bob, red, blue}
	for _, tc := range []struct {
		name    string
		change  ruleset.Change
		touched []*watching
	}{
		{"a role that nobody has", ruleset.Put(touchRole("other", "x")), nil},
		{"a binding of one", ruleset.Put(touchBinding("d", "read", "User", "ann")), []*watching{ann, ann2}},
		{"a binding of a group", ruleset.Put(touchBinding("d", "read", "Group", "red")), []*watching{red}},
		{"a binding of another group", ruleset.Put(touchBinding("d", "read", "Group", "blue")), []*watching{blue}},
		{"the role of all", ruleset.Put(touchRole("read", "x")), all},
	} {
		after := &snapshot.Snapshot{Generation: before.Generation + 1, Rules: before.Rules.Apply(tc.change)}
		r.advance(after, time.Now(), time.Now())
		for i, w := range all {
			touched := false
			for _, other := range tc.touched {
				touched = touched || other == w
			}
			if w.isDue(after) != touched {
				t.Errorf("%s: watch %d is due: %v", tc.name, i, !touched)
			}
		}
		o.quick = nil
		for r.step(t.Context(), quick) {
			continue
		}
		if len(o.quick) != len(tc.touched) {
			t.Errorf("%s: asked about %s", tc.name, o.quick)
		}
		for i, w := range all {
			if w.isDue(after) {
				t.Errorf("%s: watch %d is still due", tc.name, i)
			}
		}
		before = after
	}
}

// BenchmarkUntouched is what a policy change costs that touches none of 10,000 watches.
func BenchmarkUntouched(b *testing.B) {
	r := newRechecks(&oracle{})
	in := ruleset.Input{MasterNamespace: "master", ClusterRoles: []*rbacv1.ClusterRole{touchRole("read"), touchRole("other")}}
	for i := range 2000 {
		in.RoleBindings = append(in.RoleBindings, touchBinding("a", "read", "User", fmt.Sprint("u", i)))
	}
	policy := &snapshot.Snapshot{Generation: 1, Rules: ruleset.Build(in)}
	for i := range 10_000 {
		opened(r, policy, fmt.Sprint("u", i%2000), fmt.Sprint(i))
	}
	for i := 0; b.Loop(); i++ {
		policy = &snapshot.Snapshot{Generation: policy.Generation + 1, Rules: policy.Rules.Apply(ruleset.Put(touchRole("other", fmt.Sprint(i))))}
		r.advance(policy, time.Now(), time.Now())
		for r.step(b.Context(), quick) {
			continue
		}
	}
}
