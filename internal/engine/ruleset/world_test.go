package ruleset

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/test/refmodel"
)

// picker draws from a seed that is shown when a test fails.
func picker(seed int64) refmodel.Pick { return refmodel.Pick(rand.New(rand.NewSource(seed)).Intn) }

// rules are those of a role of Policy.
type rules = []policyv1alpha1.PolicyRule

// compileText stands for the CEL compiler: the condition is its text.
// text is a condition that is only compared.
type text string

func (text) RuleCondition() {}

func compileText(_ RoleRef, _ int, r *policyv1alpha1.PolicyRule) (matching.Condition, error) {
	if strings.Contains(r.When, refmodel.Broken) {
		return nil, errors.New("when: syntax error")
	}
	return text(r.Where + "|" + r.When), nil
}

func kindsOf(w *refmodel.World) *matching.Kinds {
	var served []matching.Served
	for _, r := range w.Served {
		served = append(served, matching.Served{Group: r.Group, Resource: r.Plural, Kind: r.Kind, Builtin: r.Builtin()})
	}
	return matching.NewKinds(served)
}

func inputOf(w *refmodel.World) Input {
	return Input{MasterNamespace: w.Master, Kinds: kindsOf(w), CompileRule: compileText,
		Policies: w.Policies, PolicyBindings: w.PolicyBindings, Roles: w.Roles, ClusterRoles: w.ClusterRoles,
		RoleBindings: w.RoleBindings, ClusterRoleBindings: w.ClusterRoleBindings}
}

// traceOf is everything that the index has to say about a request, in a form that can be compared.
func traceOf(q *Query) (trace []string) {
	for _, tier := range []Tier{TierMaster, TierNamespace, TierRBAC} {
		for _, e := range []Effect{Allows, Denies} {
			for _, h := range q.AppendAll(nil, tier, e) {
				answer := refmodel.Yes
				switch {
				case h.Names() != nil:
					answer = refmodel.IfName
				case h.Condition() != nil:
					answer = refmodel.If
				}
				trace = append(trace, line(tier, h.Binding(), h.Role(), h.RuleIndex(), e == Denies, answer))
			}
		}
	}
	slices.Sort(trace)
	return slices.Compact(trace)
}

func line(tier Tier, b BindingRef, r RoleRef, rule int, deny bool, a refmodel.Answer) string {
	role := map[RoleKind]string{PolicyRole: "Policy", Role: "Role", ClusterRole: "ClusterRole"}[r.Kind] + " " + r.Namespace + "/" + r.Name
	bind := map[BindingKind]string{RoleBinding: "RoleBinding", ClusterRoleBinding: "ClusterRoleBinding"}[b.Kind] + " " + b.Namespace + "/" + b.Name
	if b.Kind == PolicyRoleBinding {
		bind = "Policy " + b.Namespace + "/" + b.Container + "/" + b.Name
	}
	return fmt.Sprint(tier, " ", bind, " of ", role, " #", rule, " deny=", deny, " ", a)
}

// traceOfModel is the same from the reference model.
func traceOfModel(w *refmodel.World, r *refmodel.Request) (trace []string) {
	add := func(tier Tier, hits []refmodel.Hit) {
		for _, h := range hits {
			trace = append(trace, fmt.Sprint(tier, " ", h.Binding, " of ", h.Role, " #", h.Rule, " deny=", h.Deny, " ", h.Answer))
		}
	}
	add(TierMaster, w.Policy(r, true))
	add(TierNamespace, w.Policy(r, false))
	add(TierRBAC, w.RBAC(r, true))
	add(TierRBAC, w.RBAC(r, false))
	slices.Sort(trace)
	return slices.Compact(trace)
}

// requireSame fails if the index and the model see a request differently, in whole or in part.
func requireSame(t *testing.T, ix *Index, w *refmodel.World, r *refmodel.Request, context string) {
	t.Helper()
	var q Query
	q.Reset(ix, r)
	got, want := traceOf(&q), traceOfModel(w, r)
	if !slices.Equal(got, want) {
		t.Fatalf("%s: request %+v\nindex:\n  %s\nmodel:\n  %s", context, r, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	requireMatch(t, "policy-master", q.PolicyMaster(), w.Policy(r, true))
	requireMatch(t, "policy-namespace", q.PolicyNamespace(), w.Policy(r, false))
	requireMatch(t, "rbac", q.RBAC(), append(w.RBAC(r, true), w.RBAC(r, false)...))
	requireMatch(t, "cluster grant", Match{Allow: q.ClusterGrant()}, w.RBAC(r, true))
	if want, ok := w.Decide(r); ok {
		if got := q.Decide(nil).Certainty; int(got) != int(want) {
			t.Fatalf("%s: request %+v: decided %v, want %v\n  %s", context, r, got, want, strings.Join(traceOf(&q), "\n  "))
		}
	}
}

// requireMatch fails if the quick answer of a tier differs from what its rules come to.
func requireMatch(t *testing.T, tier string, m Match, hits []refmodel.Hit) {
	t.Helper()
	var deny, allow, ifDeny, ifAllow bool
	for _, h := range hits {
		deny = deny || h.Deny && h.Answer == refmodel.Yes
		allow = allow || !h.Deny && h.Answer == refmodel.Yes
		ifDeny = ifDeny || h.Deny && h.Answer != refmodel.Yes
		ifAllow = ifAllow || !h.Deny && h.Answer != refmodel.Yes
	}
	if m.Deny.Found() != deny || m.Allow.Found() != allow || !deny && m.ConditionalDeny != ifDeny || !allow && m.ConditionalAllow != ifAllow {
		t.Fatalf("%s: match %+v, want deny %v allow %v conditional deny %v allow %v", tier, m, deny, allow, ifDeny, ifAllow)
	}
}
