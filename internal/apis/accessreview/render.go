package accessreview

import (
	"iter"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// chainOf shows the steps as a flat list. An answer that is itself made of several is spread over several elements:
// their order is all that matters, inside of an answer as between them.
func chainOf(steps []step, describe bool) []reviewv1.SubjectAccessReviewConditionSet {
	var chain []reviewv1.SubjectAccessReviewConditionSet
	for _, s := range steps {
		mode := reviewv1.FailureModeDeny
		if s.failOpen {
			mode = reviewv1.FailureModeNoOpinion
		}
		chain = appendSets(chain, s.name, s.decision, mode, describe)
	}
	return chain
}

func appendSets(chain []reviewv1.SubjectAccessReviewConditionSet, name string, d authorizer.ConditionsAwareDecision,
	mode reviewv1.FailureMode, describe bool) []reviewv1.SubjectAccessReviewConditionSet {
	switch {
	case d.IsNoOpinion():
		return chain
	case d.IsUnion():
		for part, sub := range d.UnionedDecisions() {
			chain = appendSets(chain, name+"/"+part, sub, mode, describe)
		}
		return chain
	case d.IsConditionsMap():
		return append(chain, reviewv1.SubjectAccessReviewConditionSet{
			AuthorizerName: name, FailureMode: mode, Conditions: conditionsOf(d.ConditionsMap(), describe),
		})
	}
	return append(chain, reviewv1.SubjectAccessReviewConditionSet{
		AuthorizerName: name, Allowed: d.IsAllow(), Denied: d.IsDeny(), Reason: d.Reason(),
	})
}

// conditionsOf lists the conditions in the order in which they are evaluated.
func conditionsOf(m authorizer.ConditionsMap, describe bool) []reviewv1.SubjectAccessReviewCondition {
	list := make([]reviewv1.SubjectAccessReviewCondition, 0, m.Length())
	for _, group := range []struct {
		effect     reviewv1.ConditionEffect
		conditions iter.Seq[authorizer.Condition]
	}{
		{reviewv1.EffectDeny, m.DenyConditions()},
		{reviewv1.EffectNoOpinion, m.NoOpinionConditions()},
		{reviewv1.EffectAllow, m.AllowConditions()},
	} {
		for c := range group.conditions {
			shown := reviewv1.SubjectAccessReviewCondition{ID: c.GetID(), Effect: group.effect, Type: c.GetType(), Condition: c.GetCondition()}
			if describe {
				shown.Description = c.GetDescription()
			}
			list = append(list, shown)
		}
	}
	return list
}

// treeOf shows a decision as it is. Of a union, members without an opinion and a message are left out, as if
// they had not been asked.
func treeOf(d authorizer.ConditionsAwareDecision) *reviewv1.ConditionsAwareDecision {
	leaf := func() *reviewv1.UnconditionalDecision {
		shown := &reviewv1.UnconditionalDecision{Reason: d.Reason()}
		if err := d.Error(); err != nil {
			shown.EvaluationError = err.Error()
		}
		return shown
	}
	switch {
	case d.IsAllow():
		return &reviewv1.ConditionsAwareDecision{Type: reviewv1.DecisionAllow, Allow: leaf()}
	case d.IsNoOpinion():
		return &reviewv1.ConditionsAwareDecision{Type: reviewv1.DecisionNoOpinion, NoOpinion: leaf()}
	case d.IsConditionsMap():
		m := d.ConditionsMap()
		return &reviewv1.ConditionsAwareDecision{Type: reviewv1.DecisionConditionsMap, ConditionsMap: &reviewv1.ConditionsMap{
			DenyConditions:      leavesOf(m.DenyConditions()),
			NoOpinionConditions: leavesOf(m.NoOpinionConditions()),
			AllowConditions:     leavesOf(m.AllowConditions()),
		}}
	case d.IsUnion():
		union := &reviewv1.ConditionsAwareDecision{Type: reviewv1.DecisionUnion}
		for name, sub := range d.UnionedDecisions() {
			if sub.IsNoOpinion() && sub.Reason() == "" && sub.Error() == nil {
				continue
			}
			union.Union = append(union.Union, reviewv1.NamedConditionsAwareDecision{AuthorizerName: name, Decision: *treeOf(sub)})
		}
		return union
	}
	// Deny is what a decision is that is nothing else.
	return &reviewv1.ConditionsAwareDecision{Type: reviewv1.DecisionDeny, Deny: leaf()}
}

func leavesOf(conditions iter.Seq[authorizer.Condition]) []reviewv1.Condition {
	var list []reviewv1.Condition
	for c := range conditions {
		list = append(list, reviewv1.Condition{ID: c.GetID(), Type: c.GetType(), Condition: c.GetCondition(), Description: c.GetDescription()})
	}
	return list
}
