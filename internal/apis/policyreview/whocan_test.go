package policyreview

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

func listed(s authz.ResourceAccessReviewStatus, subject ruleset.Subject) ruleset.Certainty {
	userName, groupName := names(subject)
	switch {
	case !subject.Group && slices.Contains(s.UserNames, userName), subject.Group && slices.Contains(s.GroupNames, groupName):
		return ruleset.Always
	case slices.ContainsFunc(s.Conditional, func(c authz.ConditionalSubject) bool { return c.UserName == userName && c.GroupName == groupName }):
		return ruleset.Sometimes
	}
	return ruleset.Never
}

// PO-14: who-can equals brute force over the same server's answers for every subject that any binding names: with every
// kind of object that conditions can tell apart for writes, and without one for everything else, on random policies
// with deny, negation, groups, conditions, missing roles and rules that do not compile.
func TestWhoCanEqualsBruteForce(t *testing.T) {
	h := newHouse(t)
	seen := map[ruleset.Certainty]int{}
	law.Rounds(t, 60, func(seed int64) (cases int) {
		w, pick := world(seed)
		ctx := h.in(w)
		for range 8 {
			q := ask(pick)
			status, err := h.WhoCan(ctx, q.namespace, authz.ResourceAccessReviewSpec{Verb: q.verb, ResourceKind: q.kind, ResourceName: q.name, IncludeBlocked: true})
			if err != nil {
				t.Fatal(err)
			}
			everybody := listed(status, ruleset.Subject{Group: true, Name: "system:authenticated"})
			for _, s := range subjects(w) {
				some, all, own := h.brute(t, ctx, q, s)
				if !own && some {
					// It can through system:authenticated alone, perhaps because of its name, which an unnamed member
					// has not.
					continue
				}
				got := max(listed(status, s), everybody)
				if listed(status, s) == ruleset.Never && blocked(status, s) {
					got = ruleset.Never
				}
				seen[got]++
				cases++
				switch {
				case some && got == ruleset.Never, listed(status, s) == ruleset.Always && !all, listed(status, s) == ruleset.Sometimes && !q.writes() && !dependsOnCaller(status, s):
					t.Fatalf("seed %d: %s %+v: listed as %v, but it can for some objects: %v, for all: %v\n%+v", seed, s, q, got, some, all, status)
				case all && got != ruleset.Always && !q.writes():
					t.Fatalf("seed %d: %s can %+v and is not listed\n%+v", seed, s, q, status)
				}
			}
		}
		return cases
	})
	for _, o := range []ruleset.Certainty{ruleset.Never, ruleset.Sometimes, ruleset.Always} {
		if seen[o] < 20 {
			law.TooFew(t, "certainties %v: too few to prove anything", seen)
		}
	}
}

// dependsOnCaller reports whether a subject is listed with a condition on its caller, whom brute force does not know.
func dependsOnCaller(s authz.ResourceAccessReviewStatus, subject ruleset.Subject) bool {
	userName, groupName := names(subject)
	return slices.ContainsFunc(s.Conditional, func(one authz.ConditionalSubject) bool {
		return one.UserName == userName && one.GroupName == groupName &&
			slices.ContainsFunc(one.Conditions, func(c authz.Condition) bool { return strings.Contains(c.Condition, "request.") })
	})
}

func blocked(s authz.ResourceAccessReviewStatus, subject ruleset.Subject) bool {
	userName, groupName := names(subject)
	return slices.ContainsFunc(s.BlockedBy, func(b authz.BlockedSubject) bool { return b.UserName == userName && b.GroupName == groupName })
}

// brute reports whether a subject can for some and for all objects, and whether a rule of its own has a part in that.
func (h *house) brute(t *testing.T, ctx context.Context, q asked, s ruleset.Subject) (some, all, own bool) {
	t.Helper()
	objects := []*runtime.RawExtension{nil}
	if q.writes() {
		objects = q.objects()
	}
	all = true
	for _, o := range objects {
		status := h.can(t, ctx, q.namespace, q.spec(s, o))
		some, all = some || status.Allowed, all && status.Allowed
		for _, a := range status.Trace.Authorizers {
			own = own || slices.ContainsFunc(a.Rules, func(r authz.RuleTrace) bool { return r.Subject == subjectOf(s) })
		}
	}
	return some, all, own
}

// PO-14: what cannot be enumerated is named; what grants nothing, or is known, is not.
func TestWhoCanSaysWhatItCannotKnow(t *testing.T) {
	spec := authz.ResourceAccessReviewSpec{Verb: "get", ResourceKind: "pods"}
	for _, tc := range []struct {
		name, want string
		more       []authorize.Link
	}{
		{name: "only rules"},
		{name: "node authorizer", more: []authorize.Link{{Name: "node", Authorizer: noOpinion{}}, {Name: "node-restriction", Authorizer: noOpinion{}}}},
		{name: "webhook", more: []authorize.Link{{Name: "node", Authorizer: noOpinion{}}, {Name: "company", Authorizer: noOpinion{}}}, want: "company"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHouse(t, tc.more...)
			status, err := h.WhoCan(h.in(&refmodel.World{Master: master}), "hammer", spec)
			if err != nil {
				t.Fatal(err)
			}
			if status.Incomplete != (tc.want != "") || !strings.Contains(status.IncompleteReason, tc.want) {
				t.Errorf("incomplete %v: %q", status.Incomplete, status.IncompleteReason)
			}
			// system:masters can, whatever the policy says.
			if !slices.Equal(status.GroupNames, []string{"system:masters"}) {
				t.Errorf("groups %v", status.GroupNames)
			}
		})
	}
}
