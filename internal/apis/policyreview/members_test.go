package policyreview

import (
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/test/law"
)

// readable is a storage that decides reads under conditions.
type readable struct{}

func (readable) Reaches(authorizer.Attributes) error { return nil }
func (readable) Asks(authorizer.Attributes) error    { return nil }

// PO-14, TR-21: what who-can says about a group holds for its members, whatever they are called: where it says never,
// none of them can, and where it says always, all of them can. Only conditions of rules tell them apart here. Reads
// under conditions are decided by the storage, or fold.
func TestWhoCanHoldsForMembers(t *testing.T) {
	for name, reads := range map[string]authorize.Reads{"reads": readable{}, "no reads": nil} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.Gate = authorize.NewGate(authorize.GateConfig{Chain: h.Gate.Chain, Conditional: true, Local: here, Limit: unasked{}, Reads: reads})
			seen := map[ruleset.Certainty]int{}
			law.Rounds(t, 100, func(seed int64) int { return h.holdsForMembers(t, seed, seen) })
			for _, o := range []ruleset.Certainty{ruleset.Never, ruleset.Sometimes, ruleset.Always} {
				if seen[o] < 20 {
					law.TooFew(t, "certainties %v: too few to prove anything", seen)
				}
			}
		})
	}
}

func (h *house) holdsForMembers(t *testing.T, seed int64, seen map[ruleset.Certainty]int) (cases int) {
	t.Helper()
	w, pick := world(seed)
	ctx := h.in(w)
	users, groups := w.Subjects()
	for range 16 {
		q := ask(pick)
		status, err := h.WhoCan(ctx, q.namespace, authz.ResourceAccessReviewSpec{Verb: q.verb, ResourceKind: q.kind, ResourceName: q.name})
		if err != nil {
			t.Fatal(err)
		}
		everybody := listed(status, ruleset.Subject{Group: true, Name: user.AllAuthenticated})
		for _, g := range groups {
			got := listed(status, ruleset.Subject{Group: true, Name: g})
			for _, name := range []string{"alice", "zed", "system:zed"} {
				if slices.Contains(users, name) {
					continue
				}
				attrs, problem := question(h.served, &user.DefaultInfo{Name: name, Groups: []string{g, user.AllAuthenticated}}, q.namespace, q.verb, q.kind, q.name)
				if problem != "" {
					continue
				}
				v := h.Gate.Decide(ctx, attrs)
				cases, seen[got] = cases+1, seen[got]+1
				if got == ruleset.Always && v.Answer != authorize.Allowed || max(got, everybody) == ruleset.Never && v.Answer == authorize.Allowed {
					t.Fatalf("seed %d: %s of %s, %+v: listed as %v, everybody as %v; it is %v: %s\n%+v", seed, name, g, q, got, everybody, v.Answer, v.Reason, status)
				}
			}
		}
	}
	return cases
}
