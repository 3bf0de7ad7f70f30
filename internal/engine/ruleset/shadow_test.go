package ruleset

import (
	"slices"
	"strings"
	"testing"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// shaded returns a copy of the world with rules added that are not enforced, in roles that there are and in others, at
// any place, broken ones and ones that are far too large included.
func shaded(w *refmodel.World, pick refmodel.Pick) *refmodel.World {
	rule := func() policyv1alpha1.PolicyRule {
		r := pick.PolicyRule()
		r.Enforcement = []policyv1alpha1.Enforcement{policyv1alpha1.EnforcementShadow, policyv1alpha1.EnforcementWarn}[pick(2)]
		switch pick(8) {
		case 0:
			r.When = refmodel.Broken
		case 1:
			r.Where = strings.Repeat("x", 300)
		case 2:
			r.Verbs = nil
		}
		return r
	}
	next := mapRoles(w, func(r []policyv1alpha1.PolicyRule) []policyv1alpha1.PolicyRule {
		for range pick(4) {
			r = slices.Insert(r, pick(len(r)+1), rule())
		}
		return r
	})
	for _, p := range next.Policies {
		if pick(2) == 0 {
			if p.Roles == nil {
				p.Roles = map[string]policyv1alpha1.PolicyRole{}
			}
			p.Roles["shadow"] = policyv1alpha1.PolicyRole{Rules: rules{rule(), rule()}}
		}
	}
	next.PolicyBindings = nil
	for _, b := range w.PolicyBindings {
		b = b.DeepCopy()
		if pick(2) == 0 && b.RoleBindings != nil {
			b.RoleBindings["shadow"] = policyv1alpha1.PolicyRoleBinding{RoleName: "shadow", GroupNames: []string{"system:authenticated"}, UserNames: []string{"ann", "bob"}}
		}
		next.PolicyBindings = append(next.PolicyBindings, b)
	}
	return next
}

// TR-6: adding, changing or removing a rule that is not enforced changes no decision, ever.
func TestLawShadowChangesNoDecision(t *testing.T) {
	law.Rounds(t, 300, func(seed int64) int { return shadowChangesNoDecision(t, seed, picker(seed)) })
}

func FuzzShadowChangesNoDecision(f *testing.F) {
	law.Fuzz(f, func(t *testing.T, pick func(int) int) { shadowChangesNoDecision(t, 0, pick) })
}

func shadowChangesNoDecision(t *testing.T, seed int64, pick refmodel.Pick) (cases int) {
	w := pick.World()
	limited := func(w *refmodel.World) Input {
		in := inputOf(w)
		in.Limits = Limits{RoleRules: 4, RoleEntries: 40, RoleBytes: 400, RoleConditions: 2, NamespaceConditions: 4, NamespaceConditionBytes: 250}
		return in
	}
	input := inputOf
	if pick(2) == 0 {
		input = limited
	}
	first, second := shaded(w, pick), shaded(w, pick)
	plain, added := Build(input(w)), Build(input(first))
	// Changed: from one set of such rules to another; removed: back to none.
	var change, remove []Change
	for _, p := range second.Policies {
		change = append(change, Put(p))
	}
	for _, b := range second.PolicyBindings {
		change = append(change, Put(b))
	}
	for _, p := range w.Policies {
		remove = append(remove, Put(p))
	}
	for _, b := range w.PolicyBindings {
		remove = append(remove, Put(b))
	}
	changed := added.Apply(change...)
	removed := changed.Apply(remove...)
	for range 40 {
		r := pick.Request()
		want := answerOf(plain, r)
		for what, ix := range map[string]*Index{"added": added, "changed": changed, "removed": removed} {
			if got := answerOf(ix, r); got != want {
				t.Fatalf("seed %d: request %+v: %+v, with rules that are not enforced (%s) %+v", seed, r, want, what, got)
			}
		}
	}
	return 40
}

// answered is everything about an answer that does not name the place of a rule.
type answered struct {
	certainty                    Certainty
	deny, allow, ifDeny, ifAllow [3]bool
	conditions                   int
	deniesDelete, unserved       bool
}

func answerOf(ix *Index, r *refmodel.Request) (d answered) {
	var q Query
	q.Reset(ix, r)
	for i, m := range []Match{q.PolicyMaster(), q.PolicyNamespace(), q.RBAC()} {
		d.deny[i], d.allow[i], d.ifDeny[i], d.ifAllow[i] = m.Deny.Found(), m.Allow.Found(), m.ConditionalDeny, m.ConditionalAllow
	}
	s := q.Decide(nil)
	d.certainty, d.conditions = s.Certainty, len(s.Conditions)
	d.deniesDelete = ix.DeniesDelete(r.GetUser(), r.GetNamespace())
	_, d.unserved = ix.UnservedDeny(r.GetUser(), r.GetNamespace())
	return d
}

// TR-6: the index of what is not enforced, kept by changes, is the one that is built at once from exactly these rules,
// and it goes when the last of them does.
func TestLawShadowsFollow(t *testing.T) {
	found := 0
	law.Rounds(t, 100, func(seed int64) int {
		pick := picker(seed)
		w := pick.World()
		ix, shadows := Build(Input{MasterNamespace: w.Master, Kinds: kindsOf(w), CompileRule: compileText}), Shadows{}
		var now *Index
		apply := func(w *refmodel.World) {
			var changes []Change
			for _, b := range w.PolicyBindings {
				changes = append(changes, Put(b))
			}
			for _, p := range w.Policies {
				changes = append(changes, Put(p))
			}
			for i := range changes {
				j := i + pick(len(changes)-i)
				changes[i], changes[j] = changes[j], changes[i]
			}
			ix = ix.Apply(changes...)
			now = shadows.Apply(ix, changes)
		}
		for range 2 {
			shade := shaded(w, pick)
			apply(shade)
			in := inputOf(shade)
			in.Part, in.Roles, in.ClusterRoles, in.RoleBindings, in.ClusterRoleBindings = Shadowed, nil, nil, nil, nil
			want := Build(in)
			if now == nil {
				continue
			}
			for range 20 {
				r := pick.Request()
				var a, b Query
				a.Reset(now, r)
				b.Reset(want, r)
				got, wanted := traceOf(&a), traceOf(&b)
				found += len(wanted)
				if !slices.Equal(got, wanted) {
					t.Fatalf("seed %d: request %+v\nkept:\n  %s\nbuilt:\n  %s", seed, r, strings.Join(got, "\n  "), strings.Join(wanted, "\n  "))
				}
			}
		}
		apply(w)
		if now != nil {
			t.Fatalf("seed %d: an index is left although every rule is enforced", seed)
		}
		return 40
	})
	if found == 0 {
		law.TooFew(t, "no request met a rule that is not enforced, nothing is tested")
	}
}

// TR-6: an enforcement that is not known, as a newer release may have stored, fails closed: an allow grants nothing,
// and a deny denies without its condition.
func TestUnknownEnforcementFailsClosed(t *testing.T) {
	build := func(e policyv1alpha1.Enforcement, deny bool) Certainty {
		p := &policyv1alpha1.Policy{Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: rules{
			{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}, Deny: deny, Enforcement: e},
			{Verbs: []string{"list"}, ResourceKinds: []string{"pods"}},
		}}, "all": {Rules: rules{{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}}}}}
		p.Name, p.Namespace = policyv1alpha1.PolicyName, "master"
		b := &policyv1alpha1.PolicyBinding{RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"ann"}}}}
		if deny {
			b.RoleBindings["c"] = policyv1alpha1.PolicyRoleBinding{RoleName: "all", UserNames: []string{"ann"}}
		}
		b.Name, b.Namespace = "master", "master"
		ix := Build(Input{MasterNamespace: "master", Policies: []*policyv1alpha1.Policy{p}, PolicyBindings: []*policyv1alpha1.PolicyBinding{b}, CompileRule: compileText})
		return ix.Decide(ask("ann", "get", "pods")).Certainty
	}
	for _, c := range []struct {
		enforcement policyv1alpha1.Enforcement
		deny        bool
		want        Certainty
	}{
		{"", false, Always}, {"Enforce", false, Always}, {"Shadow", false, Never}, {"Warn", false, Never}, {"shadow", false, Never}, {"Later", false, Never},
		{"", true, Never}, {"Enforce", true, Never}, {"Shadow", true, Always}, {"Warn", true, Always}, {"shadow", true, Never}, {"Later", true, Never},
	} {
		if got := build(c.enforcement, c.deny); got != c.want {
			t.Errorf("enforcement %q, deny %t: %v, want %v", c.enforcement, c.deny, got, c.want)
		}
	}
}
