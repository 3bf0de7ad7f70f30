package authorize

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"
)

// scripted is an authorizer with a fixed answer that counts how often it is asked.
type scripted struct {
	decision authorizer.ConditionsAwareDecision
	asked    int
}

func (s *scripted) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	s.asked++
	d := s.decision
	switch {
	case d.IsAllow():
		return authorizer.DecisionAllow, d.Reason(), d.Error()
	case d.IsDeny():
		return authorizer.DecisionDeny, d.Reason(), d.Error()
	case d.IsNoOpinion():
		return authorizer.DecisionNoOpinion, d.Reason(), d.Error()
	}
	return d.FailureDecision(), "", nil
}

func (s *scripted) ConditionsAwareAuthorize(context.Context, authorizer.Attributes) authorizer.ConditionsAwareDecision {
	s.asked++
	return s.decision
}

func (s *scripted) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return d.ConditionsMap().Evaluate(ctx, data, func(context.Context, authorizer.Condition, authorizer.ConditionsData) (bool, error) {
		return false, errors.New("opaque")
	})
}

func condition(id string, result authorizer.ConditionEvaluationResult) authorizer.Condition {
	return authorizer.GenericCondition{ID: "test.proviso.dev/" + id, EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
		return result
	}}
}

var results = []authorizer.ConditionEvaluationResult{
	authorizer.ConditionEvaluationResultBoolean(true),
	authorizer.ConditionEvaluationResultBoolean(false),
	authorizer.ConditionEvaluationResultError(errors.New("boom")),
}

// randomDecision draws any answer an authorizer can give, and its naive one-step value.
func randomDecision(r *rand.Rand) authorizer.ConditionsAwareDecision {
	switch r.IntN(5) {
	case 0:
		return authorizer.ConditionsAwareDecisionAllow("yes", nil)
	case 1:
		return authorizer.ConditionsAwareDecisionDeny("no", nil)
	case 2:
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	var sets [3][]authorizer.Condition
	for i := range 1 + r.IntN(4) {
		effect := r.IntN(3)
		sets[effect] = append(sets[effect], condition(fmt.Sprintf("c%d", i), results[r.IntN(len(results))]))
	}
	return authorizer.ConditionsAwareDecisionConditionsMap(sets[0], sets[1], sets[2])
}

// oneStep is CA-2 and the order of authorizers, spelled out: the decision with all the data at hand.
func oneStep(chain []authorizer.ConditionsAwareDecision) authorizer.Decision {
	for _, d := range chain {
		switch decision := oneStepLink(d); decision {
		case authorizer.DecisionNoOpinion:
		default:
			return decision
		}
	}
	return authorizer.DecisionNoOpinion
}

func oneStepLink(d authorizer.ConditionsAwareDecision) authorizer.Decision {
	if d.IsAllow() {
		return authorizer.DecisionAllow
	}
	if d.IsDeny() {
		return authorizer.DecisionDeny
	}
	if d.IsNoOpinion() {
		return authorizer.DecisionNoOpinion
	}
	m := d.ConditionsMap()
	for c := range m.DenyConditions() {
		if v := c.Evaluate(context.Background(), nil); v.IsTrue() || v.IsError() {
			return authorizer.DecisionDeny
		}
	}
	for c := range m.NoOpinionConditions() {
		if v := c.Evaluate(context.Background(), nil); v.IsTrue() || v.IsError() {
			return authorizer.DecisionNoOpinion
		}
	}
	for c := range m.AllowConditions() {
		if c.Evaluate(context.Background(), nil).IsTrue() {
			return authorizer.DecisionAllow
		}
	}
	return authorizer.DecisionNoOpinion
}

// FuzzChain: the lazy chain allows exactly what one step with all the data would allow (CA-3), agrees with upstream's
// eager union, and never asks more authorizers (CA-4).
func FuzzChain(f *testing.F) {
	for seed := range uint64(64) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(6)
		decisions := make([]authorizer.ConditionsAwareDecision, n)
		lazy, eager := make([]*scripted, n), make([]*scripted, n)
		links, named := make([]Link, n), make([]union.NamedAuthorizer, n)
		for i := range n {
			decisions[i] = randomDecision(r)
			lazy[i], eager[i] = &scripted{decision: decisions[i]}, &scripted{decision: decisions[i]}
			name := fmt.Sprintf("a%d", i)
			links[i], named[i] = Link{Name: name, Authorizer: lazy[i]}, union.NamedAuthorizer{AuthorizerName: name, Authorizer: eager[i]}
		}
		chain, err := NewChain(links...)
		if err != nil {
			t.Fatal(err)
		}
		want := oneStep(decisions)

		v := chain.Decide(t.Context(), authorizer.AttributesRecord{})
		got := v.Decision
		if v.Pending != nil {
			got = v.Pending.Resolve(t.Context(), nil).Decision
		}
		// A refusal before the body is read may say NoOpinion where a deny condition would have said Deny: both are
		// 403.
		if refused := v.Pending == nil && got != authorizer.DecisionAllow; got != want && !(refused && want != authorizer.DecisionAllow) {
			t.Fatalf("lazy chain decided %s, one step %s, for %v", got, want, decisions)
		}

		u, err := union.New(named...)
		if err != nil {
			t.Fatal(err)
		}
		if d := u.ConditionsAwareAuthorize(t.Context(), authorizer.AttributesRecord{}); d.IsUnion() {
			upstream, _, _ := u.EvaluateConditions(t.Context(), d, nil)
			if upstream != want {
				t.Fatalf("upstream's union decided %s, one step %s, for %v", upstream, want, decisions)
			}
		}
		for i := range n {
			if lazy[i].asked > 1 {
				t.Fatalf("authorizer %d was asked %d times", i, lazy[i].asked)
			}
		}
		if v.Pending == nil && v.Decision == authorizer.DecisionAllow && chainAsked(lazy) > chainAsked(eager) {
			t.Fatalf("lazy chain asked %d authorizers, upstream %d", chainAsked(lazy), chainAsked(eager))
		}
	})
}

func chainAsked(as []*scripted) int {
	n := 0
	for _, a := range as {
		n += a.asked
	}
	return n
}

// CA-1: what a decision can become is what upstream says, without its set.
func TestCanBecome(t *testing.T) {
	one := []authorizer.Condition{always("x")}
	var union authorizer.ConditionsAwareDecisionUnion
	union.Add("a", authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, one))
	union.Add("b", authorizer.ConditionsAwareDecisionDeny("no", nil))
	all := []authorizer.ConditionsAwareDecision{{}, union.ToDecision(), authorizer.ConditionsAwareDecisionAllow("", nil), authorizer.ConditionsAwareDecisionDeny("", nil), authorizer.ConditionsAwareDecisionNoOpinion("", nil)}
	for bits := range 8 {
		lists := [3][]authorizer.Condition{}
		for i := range lists {
			if bits&(1<<i) != 0 {
				lists[i] = []authorizer.Condition{authorizer.GenericCondition{ID: fmt.Sprintf("c%d", i), Type: "t", Condition: "x"}}
			}
		}
		all = append(all, authorizer.ConditionsAwareDecisionConditionsMap(lists[0], lists[1], lists[2]))
	}
	for _, d := range all {
		for _, decision := range []authorizer.Decision{authorizer.DecisionAllow, authorizer.DecisionDeny, authorizer.DecisionNoOpinion, 99} {
			if got, want := canBecome(d, decision), d.PossibleDecisions().Has(decision); got != want {
				t.Errorf("%s can become %s: %v, upstream says %v", d, decision, got, want)
			}
		}
	}
}

// CA-21: a decision is pending by the links whose conditions decide it, and not by one that has none.
func TestPendingBy(t *testing.T) {
	deny := authorizer.ConditionsAwareDecisionConditionsMap([]authorizer.Condition{condition("d", results[0])}, nil, nil)
	may := authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{condition("a", results[0])})
	yes := authorizer.ConditionsAwareDecisionAllow("yes", nil)
	for _, tt := range []struct {
		chain []authorizer.ConditionsAwareDecision
		want  string
	}{
		{[]authorizer.ConditionsAwareDecision{deny, yes}, "l0"},
		{[]authorizer.ConditionsAwareDecision{deny, deny, yes}, "l0,l1"},
		{[]authorizer.ConditionsAwareDecision{may, yes}, "l0"},
		{[]authorizer.ConditionsAwareDecision{deny, may}, "l1"},
	} {
		var links []Link
		for i, d := range tt.chain {
			links = append(links, Link{Name: fmt.Sprintf("l%d", i), Authorizer: &scripted{decision: d}})
		}
		chain, err := NewChain(links...)
		if err != nil {
			t.Fatal(err)
		}
		if got := chain.Decide(t.Context(), authorizer.AttributesRecord{Verb: "create"}); got.Pending == nil || got.Waits != tt.want || got.Authorizer != links[len(links)-1].Name && got.Authorizer != tt.want {
			t.Errorf("pending by %q of %q, want %q", got.Waits, got.Authorizer, tt.want)
		}
	}
}
