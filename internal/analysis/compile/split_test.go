package compile

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// MC-4: subjects that do not fit into one expression are held by several policies, each for some of them; one that
// fits is held by one.
func TestSplitSubjects(t *testing.T) {
	names := func(n, length int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("%0*d", length, i))
		}
		return all
	}
	for _, tt := range []struct {
		users, groups []string
		pieces        int
	}{
		{names(10, 10), nil, 1}, {names(10, 10), names(10, 10), 1}, {names(5000, 20), nil, 4}, {names(1000, 36), names(5000, 20), 5}, {names(1, maxNames+1), nil, 1},
	} {
		u := &unit{bound: &bound{users: tt.users, groups: tt.groups}}
		pieces, seen := u.pieces(), 0
		for _, p := range pieces {
			seen += len(p.users) + len(p.groups)
			if len(p.subjects()) > maxNames+1000 && len(p.users)+len(p.groups) > 1 {
				t.Errorf("a piece of %d bytes", len(p.subjects()))
			}
			if !p.same(u) {
				t.Error("a piece is not of its unit")
			}
		}
		if len(pieces) != tt.pieces || seen != len(tt.users)+len(tt.groups) {
			t.Errorf("%d users and %d groups: %d pieces with %d subjects, want %d pieces", len(tt.users), len(tt.groups), len(pieces), seen, tt.pieces)
		}
	}
	many := rule{Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, Where: `resource.metadata.name == "small"`}
	result := compiledFor(t, names(6000, 20), many)
	policies, bindings := 0, 0
	for _, o := range result.Policies {
		if _, ok := o.(*admissionv1.ValidatingAdmissionPolicy); ok {
			policies++
		}
	}
	for _, o := range result.Grants {
		if kind, _ := identityOf(o); kind == "ClusterRoleBinding" {
			bindings++
		}
	}
	if a := result.Assessments[0]; a.Verdict != Stronger || policies != 4 || bindings != 2 {
		t.Errorf("%s: %v, %d policies, %d bindings", a.Verdict, a.Lost, policies, bindings)
	}
}
