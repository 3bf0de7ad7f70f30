package authorize

import (
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// CA-7: of several sets the first that has an opinion decides; what is no set of conditions fails closed.
func TestSetsDecideInOrder(t *testing.T) {
	allows := func(id string, met int) authorizer.ConditionsAwareDecision {
		return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{condition(id, results[met])})
	}
	denies := func(id string, met int) authorizer.ConditionsAwareDecision {
		return authorizer.ConditionsAwareDecisionConditionsMap([]authorizer.Condition{condition(id, results[met])}, nil, nil)
	}
	for name, c := range map[string]struct {
		sets []authorizer.ConditionsAwareDecision
		want authorizer.Decision
	}{
		"the first allows":         {[]authorizer.ConditionsAwareDecision{allows("a", 0), denies("b", 0)}, authorizer.DecisionAllow},
		"the first denies":         {[]authorizer.ConditionsAwareDecision{denies("a", 0), allows("b", 0)}, authorizer.DecisionDeny},
		"the first has no opinion": {[]authorizer.ConditionsAwareDecision{allows("a", 1), allows("b", 0)}, authorizer.DecisionAllow},
		"none has":                 {[]authorizer.ConditionsAwareDecision{allows("a", 1), denies("b", 1)}, authorizer.DecisionNoOpinion},
		"a deny fails":             {[]authorizer.ConditionsAwareDecision{denies("a", 2), allows("b", 0)}, authorizer.DecisionDeny},
	} {
		var union authorizer.ConditionsAwareDecisionUnion
		for i, d := range c.sets {
			union.Add(string(rune('a'+i)), d)
		}
		got, reason, _ := evaluateSets(t.Context(), "test", union.ToDecision(), nil)
		if got != c.want {
			t.Errorf("%s: %v (%s), want %v", name, got, reason, c.want)
		}
	}
	if got, _, err := evaluateSets(t.Context(), "test", authorizer.ConditionsAwareDecisionAllow("", nil), nil); got == authorizer.DecisionAllow || err == nil {
		t.Errorf("no set of conditions: %v %v", got, err)
	}
}
