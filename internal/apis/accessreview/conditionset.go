package accessreview

import (
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/request/authorize"
)

// decisionOf reads a set of conditions whose effects are known. A malformed one fails closed: Deny if any of it could
// have denied, otherwise no opinion.
func decisionOf(set *reviewv1.SubjectAccessReviewConditionSet) authorizer.ConditionsAwareDecision {
	var deny, noOpinion, allow []authorizer.Condition
	var malformed error
	for i := range set.Conditions {
		c := &set.Conditions[i]
		if err := authorize.CheckCondition(c.Condition, c.Description); err != nil && malformed == nil {
			malformed = fmt.Errorf("condition %d is malformed: %w", i, err)
		}
		condition := authorizer.GenericCondition{ID: c.ID, Type: c.Type, Condition: c.Condition, Description: c.Description}
		switch c.Effect {
		case reviewv1.EffectAllow:
			allow = append(allow, condition)
		case reviewv1.EffectNoOpinion:
			noOpinion = append(noOpinion, condition)
		default:
			deny = append(deny, condition)
		}
	}
	switch {
	case malformed == nil:
		return authorizer.ConditionsAwareDecisionConditionsMap(deny, noOpinion, allow)
	case len(deny) > 0:
		return authorizer.ConditionsAwareDecisionDeny("failed closed", malformed)
	}
	return authorizer.ConditionsAwareDecisionNoOpinion("failed closed", malformed)
}
