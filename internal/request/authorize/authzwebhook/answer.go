package authzwebhook

import (
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
)

var (
	errAllowAndDeny       = errors.New("webhook subject access review returned both allow and deny response")
	errDenyAndConditions  = malformed("webhook subject access review returned both deny and conditional response")
	errAllowAndConditions = malformed("webhook subject access review returned both allow and conditional response")
	errSeveralSets        = errors.New("webhook subject access review returned more than one condition set, exactly one is accepted")
)

// malformed returns an error that fails closed and does not count as an error of the server (CA-1).
func malformed(format string, values ...any) error {
	return &authorize.SetError{Err: fmt.Errorf(format, values...)}
}

// decisionOf reads an answer. Contradictions never allow: one that includes a deny denies; one between allow and
// conditions is a failure of the webhook.
func (w *Webhook) decisionOf(status *reviewv1.SubjectAccessReviewStatus, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	conditional := len(status.ConditionsChain) > 0 || status.ConditionalDecision != nil
	switch {
	case status.Denied && status.Allowed:
		return authorizer.ConditionsAwareDecisionDeny(status.Reason, errAllowAndDeny)
	case status.Denied && conditional:
		return authorizer.ConditionsAwareDecisionDeny(status.Reason, errDenyAndConditions)
	case status.Allowed && conditional:
		return w.failed(status.Reason, errAllowAndConditions)
	case status.Denied:
		return authorizer.ConditionsAwareDecisionDeny(status.Reason, nil)
	case status.Allowed:
		return authorizer.ConditionsAwareDecisionAllow(status.Reason, nil)
	case !conditional:
		return authorizer.ConditionsAwareDecisionNoOpinion(status.Reason, nil)
	}
	sets, err := setsOf(status)
	if err == nil && len(sets) > 1 {
		err = errSeveralSets
	}
	if err != nil {
		return folded(err, sets...)
	}
	only := sets[0]
	switch {
	case only.Denied && (only.Allowed || len(only.Conditions) > 0):
		return authorizer.ConditionsAwareDecisionDeny(only.Reason, errDenyAndConditions)
	case only.Denied:
		return authorizer.ConditionsAwareDecisionDeny(only.Reason, nil)
	case only.Allowed:
		// An allow belongs in the status itself; in a set it is a contradiction.
		return w.failed(only.Reason, errAllowAndConditions)
	}
	return w.conditionsOf(only, attrs)
}

// setsOf reads both dialects into the same form. On error it returns what it has read, so that a deny in it is not
// lost.
func setsOf(status *reviewv1.SubjectAccessReviewStatus) ([]reviewv1.SubjectAccessReviewConditionSet, error) {
	sets := status.ConditionsChain
	if status.ConditionalDecision == nil {
		return sets, nil
	}
	tree, err := treeOf(status.ConditionalDecision)
	if err == nil && len(sets) > 0 {
		err = errors.New("webhook subject access review returned both conditionsChain and conditionalDecision")
	}
	return append(sets[:len(sets):len(sets)], tree...), err
}

// treeOf reads the dialect of decision trees, of which only a single map of conditions is accepted.
func treeOf(d *reviewv1.ConditionsAwareDecision) ([]reviewv1.SubjectAccessReviewConditionSet, error) {
	var set reviewv1.SubjectAccessReviewConditionSet
	add := func(effect reviewv1.ConditionEffect, conditions []reviewv1.Condition) {
		for _, c := range conditions {
			set.Conditions = append(set.Conditions, reviewv1.SubjectAccessReviewCondition{
				ID: c.ID, Effect: effect, Type: c.Type, Condition: c.Condition, Description: c.Description,
			})
		}
	}
	if m := d.ConditionsMap; m != nil {
		add(reviewv1.EffectDeny, m.DenyConditions)
		add(reviewv1.EffectNoOpinion, m.NoOpinionConditions)
		add(reviewv1.EffectAllow, m.AllowConditions)
	}
	sets := []reviewv1.SubjectAccessReviewConditionSet{set}
	single := d.ConditionsMap != nil && d.Allow == nil && d.Deny == nil && d.NoOpinion == nil && len(d.Union) == 0
	switch {
	case d.Type == reviewv1.DecisionConditionsMap && single:
		return sets, nil
	case d.Type == reviewv1.DecisionUnion:
		for i := range d.Union {
			more, _ := treeOf(&d.Union[i].Decision)
			sets = append(sets, more...)
		}
		return sets, fmt.Errorf("webhook subject access review returned a union: %w", errSeveralSets)
	case d.Type == reviewv1.DecisionDeny, !knownDecision(d.Type):
		// An unknown type could be a deny.
		sets[0].Denied = true
	}
	return sets, fmt.Errorf("webhook subject access review returned a conditional decision of type %q, ConditionsMap and its member alone are accepted", shorten(string(d.Type)))
}

func knownDecision(t reviewv1.DecisionType) bool {
	switch t {
	case reviewv1.DecisionAllow, reviewv1.DecisionDeny, reviewv1.DecisionNoOpinion, reviewv1.DecisionConditionsMap, reviewv1.DecisionUnion:
		return true
	}
	return false
}

// reasonMalformed is shown to the caller; the audit event has the details.
const reasonMalformed = "the conditions of the webhook are malformed and failed closed"

// folded returns the decision on a malformed answer: Deny if any of it could have denied, else no opinion (CA-1).
func folded(err error, sets ...reviewv1.SubjectAccessReviewConditionSet) authorizer.ConditionsAwareDecision {
	err = &authorize.SetError{Err: err}
	for i := range sets {
		if canDeny(&sets[i]) {
			return authorizer.ConditionsAwareDecisionDeny(reasonMalformed, err)
		}
	}
	return authorizer.ConditionsAwareDecisionNoOpinion(reasonMalformed, err)
}

// canDeny also counts unknown effects.
func canDeny(set *reviewv1.SubjectAccessReviewConditionSet) bool {
	for _, c := range set.Conditions {
		if c.Effect != reviewv1.EffectAllow && c.Effect != reviewv1.EffectNoOpinion {
			return true
		}
	}
	return set.Denied
}

// conditionsOf builds the decision from one set, bound to the request that it answers.
func (w *Webhook) conditionsOf(answer reviewv1.SubjectAccessReviewConditionSet, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if err := checkSet(&answer); err != nil {
		return folded(fmt.Errorf("webhook authorizer %s: condition set: %w", w.name, err), answer)
	}
	if foreign := notBuiltIn(&answer); foreign != nil && w.conditions == nil {
		return w.failed("no evaluator is configured for the conditions of the webhook", malformed(
			"webhook authorizer %s: condition %q is of type %q, and there is no conditionsEndpointKubeConfigContext that says who evaluates it", w.name, foreign.ID, foreign.Type))
	}
	set := &conditionSet{webhook: w, answer: answer, request: expr.NewRequest(attrs)}
	var deny, noOpinion, allow []authorizer.Condition
	for i := range answer.Conditions {
		c := &condition{set: set, said: &answer.Conditions[i]}
		switch c.said.Effect {
		case reviewv1.EffectAllow:
			allow = append(allow, c)
		case reviewv1.EffectNoOpinion:
			noOpinion = append(noOpinion, c)
		default:
			deny = append(deny, c)
		}
	}
	d := authorizer.ConditionsAwareDecisionConditionsMap(deny, noOpinion, allow)
	if err := d.Error(); err != nil { // Kubernetes' own constructor has found more
		return folded(fmt.Errorf("webhook authorizer %s: condition set: %w", w.name, err), answer)
	}
	return d
}

// notBuiltIn returns a condition that cannot be evaluated in process, if there is one.
func notBuiltIn(set *reviewv1.SubjectAccessReviewConditionSet) *reviewv1.SubjectAccessReviewCondition {
	for i := range set.Conditions {
		if set.Conditions[i].Type != expr.TypeCEL {
			return &set.Conditions[i]
		}
	}
	return nil
}
