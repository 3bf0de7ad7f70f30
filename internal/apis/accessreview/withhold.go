package accessreview

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// What a caller of a LocalSubjectAccessReview sees who may not see everything: that there is a condition, and what it
// would do. A condition without its text cannot be evaluated, so that an allow of it does not allow and a deny denies.
const (
	unseenCondition  = "not shown: you need the right to get the role"
	unseenConditions = "not all conditions are shown: you need the right to get their roles"
)

// silent leaves out what quotes conditions in prose.
type silent struct{ Requests }

func (silent) Narrowed(context.Context, authorizer.Attributes) string       { return "" }
func (silent) United(context.Context, authorizer.Attributes) (string, bool) { return "", false }

// without is an answerer for callers who may not see all conditions.
func (a *answerer) without() *answerer {
	other := *a
	other.requests = silent{a.requests}
	return &other
}

// withhold takes out of an answer what the caller may not see. If that is a condition, the reasons go with it: they
// speak of the rules behind it.
func withhold(status *reviewv1.SubjectAccessReviewStatus, view View) {
	status.AuthorizationDecision = nil
	hidden := false
	for i := range status.ConditionsChain {
		for j := range status.ConditionsChain[i].Conditions {
			if c := &status.ConditionsChain[i].Conditions[j]; !view.Shows(c.ID) {
				c.Condition, c.Description, hidden = "", unseenCondition, true
			}
		}
	}
	eachDecision(status.ConditionalDecision, func(d *reviewv1.ConditionsAwareDecision) {
		for _, c := range conditionsIn(d) {
			if !view.Shows(c.ID) {
				c.Condition, c.Description, hidden = "", unseenCondition, true
			}
		}
	})
	if !hidden {
		return
	}
	status.Reason, status.EvaluationError = unseenConditions, ""
	for i := range status.ConditionsChain {
		status.ConditionsChain[i].Reason = ""
	}
	eachDecision(status.ConditionalDecision, func(d *reviewv1.ConditionsAwareDecision) {
		for _, leaf := range []*reviewv1.UnconditionalDecision{d.Allow, d.Deny, d.NoOpinion} {
			if leaf != nil {
				*leaf = reviewv1.UnconditionalDecision{}
			}
		}
	})
}

func eachDecision(d *reviewv1.ConditionsAwareDecision, visit func(*reviewv1.ConditionsAwareDecision)) {
	if d == nil {
		return
	}
	visit(d)
	for i := range d.Union {
		eachDecision(&d.Union[i].Decision, visit)
	}
}

func conditionsIn(d *reviewv1.ConditionsAwareDecision) (all []*reviewv1.Condition) {
	if d.ConditionsMap == nil {
		return nil
	}
	for _, list := range [][]reviewv1.Condition{d.ConditionsMap.DenyConditions, d.ConditionsMap.NoOpinionConditions, d.ConditionsMap.AllowConditions} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}
