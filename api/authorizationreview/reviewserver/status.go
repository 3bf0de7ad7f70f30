package reviewserver

import (
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// dialect is how the caller wants conditions.
type dialect int

const (
	none dialect = iota
	chain
	tree
)

func dialectOf(q *reviewv1.Question) dialect {
	switch {
	case q.ConditionalAuthorization != nil:
		return chain
	case q.AuthorizationOptions != nil && slices.Contains(q.AuthorizationOptions.HandledDecisionTypes, reviewv1.DecisionConditionsMap):
		return tree
	}
	return none
}

// statusOf says a decision in the dialect of the question.
func statusOf(d Decision, q *reviewv1.Question) reviewv1.SubjectAccessReviewStatus {
	if d.set == nil {
		return final(d.allowed, !d.allowed && !d.abstains, d.reason, "")
	}
	if err := Check(d.set); err != nil {
		return final(false, canDeny(d.set), "the conditions are malformed and failed closed", err.Error())
	}
	switch dialectOf(q) {
	case chain:
		set := *d.set
		if q.ConditionalAuthorization.Mode == reviewv1.Optimized {
			set.Conditions = undescribed(set.Conditions)
		}
		return reviewv1.SubjectAccessReviewStatus{ConditionsChain: []reviewv1.SubjectAccessReviewConditionSet{set}}
	case tree:
		return reviewv1.SubjectAccessReviewStatus{ConditionalDecision: treeOf(d.set)}
	}
	denied := canDeny(d.set) && d.set.FailureMode != reviewv1.FailureModeNoOpinion
	return final(false, denied, "the answer depends on conditions, which were not asked for", "")
}

func final(allowed, denied bool, reason, fault string) reviewv1.SubjectAccessReviewStatus {
	if fault != "" {
		fault = fmt.Sprintf("webhook: %s", fault)
	}
	return reviewv1.SubjectAccessReviewStatus{SubjectAccessReviewStatus: authorizationv1.SubjectAccessReviewStatus{
		Allowed: allowed, Denied: denied, Reason: reason, EvaluationError: fault,
	}}
}

func undescribed(all []reviewv1.SubjectAccessReviewCondition) []reviewv1.SubjectAccessReviewCondition {
	all = slices.Clone(all)
	for i := range all {
		all[i].Description = ""
	}
	return all
}

// treeOf says a set as a tree, which has no failure mode: a Deny that fails always denies.
func treeOf(set *reviewv1.SubjectAccessReviewConditionSet) *reviewv1.ConditionsAwareDecision {
	m := &reviewv1.ConditionsMap{}
	for i := range set.Conditions {
		c := &set.Conditions[i]
		one := reviewv1.Condition{ID: c.ID, Type: c.Type, Condition: c.Condition, Description: c.Description}
		switch c.Effect {
		case reviewv1.EffectAllow:
			m.AllowConditions = append(m.AllowConditions, one)
		case reviewv1.EffectNoOpinion:
			m.NoOpinionConditions = append(m.NoOpinionConditions, one)
		default:
			m.DenyConditions = append(m.DenyConditions, one)
		}
	}
	return &reviewv1.ConditionsAwareDecision{Type: reviewv1.DecisionConditionsMap, ConditionsMap: m}
}
