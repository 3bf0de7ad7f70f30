package review

import (
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/expr"
)

// maxDescription is the limit of a description in bytes (CA-1). That of a text is the engine's, that of a set Kubernetes' own.
const maxDescription = 1024

// decisionOf reads a set of conditions whose effects are known. A malformed one fails closed: Deny if any of it could have
// denied, otherwise no opinion.
func decisionOf(set *reviewv1.SubjectAccessReviewConditionSet) authorizer.ConditionsAwareDecision {
	var deny, noOpinion, allow []authorizer.Condition
	var malformed error
	for i := range set.Conditions {
		c := &set.Conditions[i]
		if err := checkCondition(c); err != nil && malformed == nil {
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

// checkCondition checks what Kubernetes' own constructor of a set does not.
func checkCondition(c *reviewv1.SubjectAccessReviewCondition) error {
	switch {
	case len(c.Condition) > expr.MaxLength:
		return fmt.Errorf("its text has %d bytes, at most %d are allowed", len(c.Condition), expr.MaxLength)
	case len(c.Description) > maxDescription:
		return fmt.Errorf("its description has %d bytes, at most %d are allowed", len(c.Description), maxDescription)
	}
	return nil
}

// shorten keeps a message readable whatever it quotes.
func shorten(s string) string {
	const limit = 64
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
