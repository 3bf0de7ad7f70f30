package ruleset

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// ask is a request on a resource of the core group, cluster-wide.
func ask(who, verb, resource string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: verb, Resource: resource, ResourceRequest: true}
}

// mapRoles returns a copy of the world with the rules of every Policy role changed.
func mapRoles(w *refmodel.World, change func([]policyv1alpha1.PolicyRule) []policyv1alpha1.PolicyRule) *refmodel.World {
	next := *w
	next.Policies = nil
	for _, p := range w.Policies {
		p = p.DeepCopy()
		for name, r := range p.Roles {
			r.Rules = change(r.Rules)
			p.Roles[name] = r
		}
		next.Policies = append(next.Policies, p)
	}
	return &next
}

// PO-7: the order of rules is irrelevant.
func TestLawOrderIsIrrelevant(t *testing.T) {
	law.Rounds(t, 100, func(seed int64) int { return orderIsIrrelevant(t, seed, picker(seed)) })
}

func FuzzOrderIsIrrelevant(f *testing.F) {
	law.Fuzz(f, func(t *testing.T, pick func(int) int) { orderIsIrrelevant(t, 0, pick) })
}

func orderIsIrrelevant(t *testing.T, seed int64, pick refmodel.Pick) (cases int) {
	w := pick.World()
	shuffled := mapRoles(w, func(r []policyv1alpha1.PolicyRule) []policyv1alpha1.PolicyRule {
		for i := range r {
			j := i + pick(len(r)-i)
			r[i], r[j] = r[j], r[i]
		}
		return r
	})
	a, b := Build(inputOf(w)), Build(inputOf(shuffled))
	for range 30 {
		r := pick.Request()
		if x, y := a.Decide(r).Certainty, b.Decide(r).Certainty; x != y {
			t.Fatalf("seed %d: request %+v: %v, after shuffling the rules %v", seed, r, x, y)
		}
	}
	return 30
}

// PO-7: one more deny rule never widens what anybody can, one more allow rule never narrows it.
func TestLawDenyNarrowsAllowWidens(t *testing.T) {
	law.Rounds(t, 100, func(seed int64) int { return denyNarrowsAllowWidens(t, seed, picker(seed)) })
}

func FuzzDenyNarrowsAllowWidens(f *testing.F) {
	law.Fuzz(f, func(t *testing.T, pick func(int) int) { denyNarrowsAllowWidens(t, 0, pick) })
}

func denyNarrowsAllowWidens(t *testing.T, seed int64, pick refmodel.Pick) (cases int) {
	w := pick.World()
	more := pick.PolicyRule()
	wider := mapRoles(w, func(r []policyv1alpha1.PolicyRule) []policyv1alpha1.PolicyRule { return append(r, more) })
	a, b := Build(inputOf(w)), Build(inputOf(wider))
	for range 60 {
		r := pick.Request()
		x, y := a.Decide(r).Certainty, b.Decide(r).Certainty
		if more.Deny && y > x || !more.Deny && y < x {
			t.Fatalf("seed %d: request %+v: %v, with the rule %+v %v", seed, r, x, more, y)
		}
	}
	return 60
}

// SV-8: a rule whose condition does not compile is quarantined alone. Its allow grants nothing and its deny denies
// always, so that breaking a condition never gives anybody more.
func TestLawQuarantineNeverWidens(t *testing.T) {
	quarantined := 0
	law.Rounds(t, 100, func(seed int64) int {
		pick := picker(seed)
		w := pick.World()
		broken := mapRoles(w, func(r []policyv1alpha1.PolicyRule) []policyv1alpha1.PolicyRule {
			for i := range r {
				if r[i].When != "" {
					r[i].When = refmodel.Broken
				}
			}
			return r
		})
		a, b := Build(inputOf(w)), Build(inputOf(broken))
		quarantined += len(b.Problems()) - len(a.Problems())
		for range 60 {
			r := pick.Request()
			if x, y := a.Decide(r).Certainty, b.Decide(r).Certainty; y > x {
				t.Fatalf("seed %d: request %+v: %v, with broken conditions %v", seed, r, x, y)
			}
		}
		return 60
	})
	if quarantined == 0 {
		law.TooFew(t, "no rule was quarantined, nothing is tested")
	}
}

// PO-9: a review that asks about everything is answered with yes only if everything it asks about is allowed.
func TestLawWildcardQuestions(t *testing.T) {
	yes := 0
	law.Rounds(t, 800, func(seed int64) int {
		pick := picker(seed)
		w := pick.World()
		w.ClusterRoleBindings, w.RoleBindings = nil, nil // RBAC takes a * in a request literally, as upstream does
		ix := Build(inputOf(w))
		for range 40 {
			r := pick.Request()
			if !r.ResourceRequest {
				continue
			}
			wide := *r
			for _, f := range []*string{&wide.Verb, &wide.Resource, &wide.APIGroup, &wide.Subresource} {
				if pick(2) == 0 {
					*f = "*"
				}
			}
			if wide.Subresource == "*" && r.Subresource == "" {
				continue
			}
			x, y := ix.Decide(&wide).Certainty, ix.Decide(r).Certainty
			if x > y {
				t.Fatalf("seed %d: asked about %+v: %v; but %+v: %v", seed, wide, x, r, y)
			}
			if x == Always && (wide.Verb == "*" || wide.Resource == "*" || wide.APIGroup == "*" || wide.Subresource == "*") {
				yes++
			}
		}
		return 40
	})
	if yes == 0 {
		law.TooFew(t, "no question about everything was ever answered with yes, nothing is tested")
	}
}
