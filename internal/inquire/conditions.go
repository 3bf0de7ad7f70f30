package inquire

import (
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/ruleset"
)

// conditionsOf lists what a decision depends on, in the order in which it is evaluated.
func conditionsOf(d authorizer.ConditionsAwareDecision) []authz.Condition {
	if d.IsUnion() {
		var all []authz.Condition
		for _, sub := range d.UnionedDecisions() {
			all = append(all, conditionsOf(sub)...)
		}
		return all
	}
	if !d.IsConditionsMap() {
		return nil
	}
	var all []authz.Condition
	m := d.ConditionsMap()
	for c := range m.DenyConditions() {
		all = append(all, condition(c, authz.EffectDeny))
	}
	for c := range m.NoOpinionConditions() {
		all = append(all, condition(c, authz.EffectNoOpinion))
	}
	for c := range m.AllowConditions() {
		all = append(all, condition(c, authz.EffectAllow))
	}
	return all
}

func condition(c authorizer.Condition, effect authz.ConditionEffect) authz.Condition {
	return authz.Condition{ID: c.GetID(), Effect: effect, Type: c.GetType(), Condition: c.GetCondition(), Description: c.GetDescription()}
}

func denyCondition(hit ruleset.Hit, attrs authorizer.Attributes) authz.Condition {
	return condition(authorize.DenyCondition(hit, attrs), authz.EffectDeny)
}
