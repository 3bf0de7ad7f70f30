package authorize

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationmetrics "k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/law"
)

// hidden is a tier of which the chain sees only what upstream's interface has.
type hidden struct{ authorizer.Authorizer }

// randomCondition is one that an open set can have, with a result of its own.
func randomCondition(r *rand.Rand, id int) authorizer.Condition {
	failure := &expr.EvalError{Reason: expr.ReasonType, Detail: fmt.Sprint("failure ", id)}
	result := append(results, authorizer.ConditionsEvaluationResultUnevaluatable(), authorizer.ConditionEvaluationResultError(failure))[r.IntN(5)]
	c := authorizer.GenericCondition{ID: fmt.Sprintf("test.proviso.dev/c%d", id), Type: "t", Condition: "x",
		EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorizer.ConditionEvaluationResult { return result }}
	if r.IntN(2) == 0 {
		c.Description = "only \"good\" ones\n"
	}
	return c
}

// Law: an open set decides, gives reasons and fails as upstream's decision that is made of it does.
func FuzzOpenSet(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		most := 4
		if seed%50 == 0 {
			most = 2 * authorizer.MaxConditionsPerMap
		}
		s := &openSet{label: "policy-namespace"}
		for i := range 1 + r.IntN(most) {
			if c := randomCondition(r, i); r.IntN(2) == 0 {
				s.denies = append(s.denies, c)
			} else {
				s.allows = append(s.allows, c)
			}
		}
		d := s.upstream()
		type result struct{ Decision, Reason, Err, FailedClosed string }
		resultOf := func(decision authorizer.Decision, reason string, err error) result {
			return result{decision.String(), reason, fmt.Sprint(err), fmt.Sprint(FailedClosed(err), errors.Is(err, errNotEvaluable))}
		}
		want := resultOf(evaluateSets(t.Context(), s.label, d, nil))
		for range 2 {
			if diff := cmp.Diff(want, resultOf(s.evaluate(t.Context(), nil))); diff != "" {
				t.Fatalf("%d denies, %d allows: upstream's decision (-), the set (+)\n%s", len(s.denies), len(s.allows), diff)
			}
		}
		for _, decision := range []authorizer.Decision{authorizer.DecisionAllow, authorizer.DecisionDeny, authorizer.DecisionNoOpinion, 99} {
			if got, want := s.canBecome(decision), d.PossibleDecisions().Has(decision); got != want {
				t.Errorf("can become %s: %v, upstream says %v", decision, got, want)
			}
		}
		if s.folded() != d.FailureDecision() {
			t.Errorf("folded to %s, upstream says %s", s.folded(), d.FailureDecision())
		}
		var ours, theirs typeSet
		ours.add(s, nil)
		theirs.add(nil, &d)
		if ours.String() == "" || !strings.Contains(theirs.String(), ours.String()) {
			t.Errorf("types %s, upstream's %s", ours.String(), theirs.String())
		}
	})
}

// openRules are rules of which a few make every kind of answer.
var openRules = []policyv1alpha1.PolicyRule{
	onlyGoodRule,
	{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, When: `object.metadata.name == "x"`},
	{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, When: `object.data.none == "x"`},
	{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, When: `request.user == "edgar"`},
	{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, When: `request.user == "eve"`},
	{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, When: `request.extra["none"] == ["x"]`},
	{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, ResourceNames: []string{"x"}},
	{Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}},
	{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, When: `object.metadata.labels["good"] == "no"`, Description: "bad ones"},
	{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, Where: `resource.data.none == "x"`},
	{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, When: `object.data.none == "x"`},
	{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, When: `request.user == "eve"`},
	{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"configmaps"}, When: `request.user == "edgar" && object.metadata.name == "y"`},
}

// said is everything that a chain says about a request, in both steps and without conditions.
func said(t *testing.T, chain *Chain, rules *snapshot.Snapshot, attrs authorizer.Attributes, label string) map[string]string {
	t.Helper()
	ctx := requestctx.With(t.Context(), rules)
	all := map[string]string{}
	v := chain.Decide(ctx, attrs)
	all["verdict"] = fmt.Sprint(v.Decision, v.Reason, v.Err, v.Failed, v.Authorizer, v.Types, v.Pending != nil, v.Denies != nil)
	decision, reason, err := v.Fold(ctx)
	all["fold"] = fmt.Sprint(decision, reason, err)
	decision, reason, err = chain.Authorize(ctx, attrs)
	all["authorize"] = fmt.Sprint(decision, reason, err)
	for name, p := range map[string]requestctx.Pending{"pending": v.Pending, "denies": v.Denies} {
		if p != nil {
			all[name] = fmt.Sprintf("%+v", p.Resolve(ctx, created(label)))
		}
	}
	d := chain.ConditionsAwareAuthorize(ctx, attrs)
	all["decision"] = d.String() + " " + strings.Join(conditionIDs(d), " ")
	for i, s := range chain.Trace(ctx, attrs, created(label), true) {
		all[fmt.Sprint("step ", i)] = fmt.Sprint(s.Link.Name, s.Asked, s.Answer, s.Open, s.Decision, s.Reason, s.Err)
	}
	return all
}

// outcomes reads upstream's counter of decisions.
func outcomes(t *testing.T, authorizerType string) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "apiserver_authorization_decisions_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["type"] == authorizerType {
				all[labels["name"]+" "+labels["decision"]] = m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// checkOpen checks that the conditions of an open set are those that the trace finds open, each once and each itself.
func checkOpen(t *testing.T, ctx context.Context, tier *Tier, attrs authorizer.Attributes) {
	t.Helper()
	_, set := tier.open(ctx, attrs, lists{})
	if set == nil {
		return
	}
	want := map[ruleset.Effect][]string{}
	allowed := false
	for _, a := range tier.Applying(ctx, attrs) {
		switch effect := a.Hit.Effect(); {
		case a.Yields:
		case a.Known == expr.Unresolved:
			if text := a.Condition.GetID() + " " + a.Condition.GetCondition(); !slices.Contains(want[effect], text) {
				want[effect] = append(want[effect], text)
			}
		case a.Known == expr.True && effect == ruleset.Allows:
			allowed = true
		}
	}
	if allowed {
		want[ruleset.Allows] = []string{expr.IDDomain + "/unconditional true"}
	}
	for effect, list := range map[ruleset.Effect][]authorizer.Condition{ruleset.Denies: set.denies, ruleset.Allows: set.allows} {
		var got []string
		for _, c := range list {
			got = append(got, c.GetID()+" "+c.GetCondition())
		}
		slices.Sort(got)
		slices.Sort(want[effect])
		if diff := cmp.Diff(want[effect], got); diff != "" {
			t.Fatalf("effect %v: the trace finds open (-), the set has (+)\n%s", effect, diff)
		}
	}
}

// Law: what the chain says does not depend on whether it knows its tiers, and neither does what upstream counts.
func TestLawOpenTiersAreTiers(t *testing.T) {
	authorizationmetrics.RegisterMetrics()
	store := snapshot.NewStore()
	chainOf := func(wrap func(name string, tier *Tier) authorizer.Authorizer) *Chain {
		chain, err := NewChain(Link{Name: "policy-namespace", Authorizer: wrap("policy-namespace", NewPolicyNamespace(store, nil).ServedBy(servedHere))}, Link{Name: "rbac", Authorizer: wrap("rbac", NewRBAC(store))})
		if err != nil {
			t.Fatal(err)
		}
		return chain
	}
	chains := map[string]*Chain{
		"known":  chainOf(func(_ string, tier *Tier) authorizer.Authorizer { return tier }),
		"hidden": chainOf(func(_ string, tier *Tier) authorizer.Authorizer { return hidden{tier} }),
		"counted": chainOf(func(name string, tier *Tier) authorizer.Authorizer {
			return Counted(tier, func(outcome string) { authorizationmetrics.RecordAuthorizationDecision("ours", name, outcome) })
		}),
		"instrumented": chainOf(func(name string, tier *Tier) authorizer.Authorizer {
			return authorizationmetrics.InstrumentedAuthorizer("theirs", name, tier)
		}),
	}
	open := 0
	law.Rounds(t, 150, func(seed int64) int {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		var rules []policyv1alpha1.PolicyRule
		for range 1 + r.IntN(4) {
			rules = append(rules, openRules[r.IntN(len(openRules))])
		}
		var everything []rbacv1.PolicyRule
		if r.IntN(3) == 0 {
			everything = append(everything, rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
		}
		snap := &snapshot.Snapshot{Rules: world(t, rules, everything...)}
		attrs := asks([]string{"create", "update", "list", "deletecollection"}[r.IntN(4)])
		label := []string{"yes", "no"}[r.IntN(2)]
		want := said(t, chains["hidden"], snap, attrs, label)
		if want["pending"] != "" {
			open++
		}
		checkOpen(t, requestctx.With(t.Context(), snap), NewPolicyNamespace(store, nil).ServedBy(servedHere), attrs)
		for name := range chains {
			if diff := cmp.Diff(want, said(t, chains[name], snap, attrs, label)); diff != "" {
				t.Fatalf("seed %d, %s of %v: the tiers are hidden (-), %s (+)\n%s", seed, attrs.Verb, rules, name, diff)
			}
		}
		return len(chains)
	})
	if open < 20 {
		law.TooFew(t, "%d requests were open", open)
	}
	ours, theirs := outcomes(t, "ours"), outcomes(t, "theirs")
	if diff := cmp.Diff(theirs, ours); diff != "" || len(ours) < 4 {
		t.Errorf("upstream counts (-), we do (+)\n%s%v", diff, ours)
	}
}
