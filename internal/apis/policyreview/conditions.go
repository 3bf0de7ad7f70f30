package policyreview

import (
	"iter"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// eachCondition visits what a decision depends on, in the order in which it is evaluated.
func eachCondition(d authorizer.ConditionsAwareDecision) iter.Seq2[authorizer.Condition, authz.ConditionEffect] {
	return func(yield func(authorizer.Condition, authz.ConditionEffect) bool) { visitConditions(d, yield) }
}

func visitConditions(d authorizer.ConditionsAwareDecision, yield func(authorizer.Condition, authz.ConditionEffect) bool) bool {
	if d.IsUnion() {
		for _, sub := range d.UnionedDecisions() {
			if !visitConditions(sub, yield) {
				return false
			}
		}
		return true
	}
	if !d.IsConditionsMap() {
		return true
	}
	m := d.ConditionsMap()
	for _, group := range []struct {
		effect     authz.ConditionEffect
		conditions iter.Seq[authorizer.Condition]
	}{
		{authz.EffectDeny, m.DenyConditions()},
		{authz.EffectNoOpinion, m.NoOpinionConditions()},
		{authz.EffectAllow, m.AllowConditions()},
	} {
		for c := range group.conditions {
			if !yield(c, group.effect) {
				return false
			}
		}
	}
	return true
}

// conditionsOf lists what a decision depends on.
func conditionsOf(d authorizer.ConditionsAwareDecision) []authz.Condition {
	var all []authz.Condition
	for c, effect := range eachCondition(d) {
		all = append(all, condition(c, effect))
	}
	return all
}

func condition(c authorizer.Condition, effect authz.ConditionEffect) authz.Condition {
	return authz.Condition{ID: c.GetID(), Effect: effect, Type: c.GetType(), Condition: c.GetCondition(), Description: c.GetDescription()}
}
