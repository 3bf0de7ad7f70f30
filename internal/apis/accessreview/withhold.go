package accessreview

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/expr"
)

// A caller of a LocalSubjectAccessReview who may not see everything only sees that there is a condition, and its
// effect. A condition without its text cannot be evaluated: an allow does not allow, and a deny denies.
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

// withhold removes from an answer what the caller may not see. If that is a condition, the reasons are removed, too:
// they mention the rules behind it.
func withhold(status *reviewv1.SubjectAccessReviewStatus, view View) {
	status.AuthorizationDecision = nil
	hidden := false
	for i := range status.ConditionsChain {
		set := &status.ConditionsChain[i]
		set.Conditions = leaveOne(set.Conditions, &hidden, func(c *reviewv1.SubjectAccessReviewCondition) (bool, reviewv1.ConditionEffect) {
			return view.Shows(c.ID), c.Effect
		}, func(id string, effect reviewv1.ConditionEffect) reviewv1.SubjectAccessReviewCondition {
			return reviewv1.SubjectAccessReviewCondition{ID: id, Effect: effect, Type: TypeCEL, Description: unseenCondition}
		})
	}
	eachDecision(status.ConditionalDecision, func(d *reviewv1.ConditionsAwareDecision) {
		if d.ConditionsMap == nil {
			return
		}
		for effect, list := range map[reviewv1.ConditionEffect]*[]reviewv1.Condition{
			reviewv1.EffectDeny: &d.ConditionsMap.DenyConditions, reviewv1.EffectNoOpinion: &d.ConditionsMap.NoOpinionConditions,
			reviewv1.EffectAllow: &d.ConditionsMap.AllowConditions,
		} {
			*list = leaveOne(*list, &hidden, func(c *reviewv1.Condition) (bool, reviewv1.ConditionEffect) {
				return view.Shows(c.ID), effect
			}, func(id string, _ reviewv1.ConditionEffect) reviewv1.Condition {
				return reviewv1.Condition{ID: id, Type: TypeCEL, Description: unseenCondition}
			})
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

// leaveOne puts one entry in the place of all conditions of an effect that may not be seen: their IDs name the roles,
// and how many there are is not shown either.
func leaveOne[C any](list []C, hidden *bool, shows func(*C) (bool, reviewv1.ConditionEffect), unseen func(string, reviewv1.ConditionEffect) C) []C {
	var out []C
	left := map[reviewv1.ConditionEffect]bool{}
	for i := range list {
		shown, effect := shows(&list[i])
		switch {
		case shown:
			out = append(out, list[i])
		case !left[effect]:
			left[effect], *hidden = true, true
			out = append(out, unseen(expr.IDDomain+"/not-shown-"+strings.ToLower(string(effect)), effect))
		}
	}
	return out
}
