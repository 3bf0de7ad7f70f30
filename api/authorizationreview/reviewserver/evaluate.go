package reviewserver

import (
	"context"
	"errors"
	"fmt"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
)

// What an answer about conditions may bring along; the API server drops what is beyond.
const (
	MaxWarnings         = 8
	MaxWarning          = 256 // bytes
	MaxAuditAnnotations = 8
	MaxAuditAnnotation  = 1024 // bytes of a value
)

// Evaluation is the question what one condition comes to.
type Evaluation struct {
	// Condition is the condition, as the authorizer said it.
	Condition reviewv1.SubjectAccessReviewCondition
	// Request has the operation, the objects and the options. Nothing in it may be changed.
	Request *reviewv1alpha1.AuthorizationConditionsRequest

	response *reviewv1alpha1.AuthorizationConditionsResponse
}

// Warn shows a warning to the user who made the request.
func (e *Evaluation) Warn(text string) {
	if len(e.response.Warnings) < MaxWarnings && len(text) <= MaxWarning {
		e.response.Warnings = append(e.response.Warnings, text)
	}
}

// Annotate adds an annotation to the audit event of the request. The API server puts the name under which it knows the
// webhook in front of the key.
func (e *Evaluation) Annotate(key, value string) {
	if len(e.response.AuditAnnotations) >= MaxAuditAnnotations || len(value) > MaxAuditAnnotation {
		return
	}
	if e.response.AuditAnnotations == nil {
		e.response.AuditAnnotations = map[string]string{}
	}
	e.response.AuditAnnotations[key] = value
}

// evaluator evaluates one set.
type evaluator struct {
	authorizer Authorizer
	request    *reviewv1alpha1.AuthorizationConditionsRequest
	response   *reviewv1alpha1.AuthorizationConditionsResponse
}

// respond evaluates a set in the order that every authorizer keeps: a Deny that is met, a Deny that fails, a NoOpinion
// that is met or fails, an Allow that is met.
func respond(ctx context.Context, a Authorizer, r *reviewv1alpha1.AuthorizationConditionsRequest) *reviewv1alpha1.AuthorizationConditionsResponse {
	e := &evaluator{authorizer: a, request: r, response: &reviewv1alpha1.AuthorizationConditionsResponse{}}
	set := &r.ConditionSet
	if err := Check(set); err != nil {
		return e.answer(false, canDeny(set), "the conditions are malformed and failed closed", err)
	}
	met, failed := e.first(ctx, reviewv1.EffectDeny)
	switch {
	case met != nil:
		return e.answer(false, true, describe(met, "denied the request"), nil)
	case failed != nil:
		return e.answer(false, set.FailureMode != reviewv1.FailureModeNoOpinion, "a condition that denies could not be evaluated", failed)
	}
	met, failed = e.first(ctx, reviewv1.EffectNoOpinion)
	if met != nil || failed != nil {
		return e.undecided("a condition leaves the request to the next authorizer", failed)
	}
	met, failed = e.first(ctx, reviewv1.EffectAllow)
	if met != nil {
		return e.answer(true, false, describe(met, "allowed the request"), nil)
	}
	return e.undecided("", failed)
}

// undecided has no opinion. The API server takes an error of a set that can deny for that of a Deny, so what failed
// behind the denies is a reason there, and not an error.
func (e *evaluator) undecided(reason string, failed error) *reviewv1alpha1.AuthorizationConditionsResponse {
	if failed != nil && canDeny(&e.request.ConditionSet) {
		return e.answer(false, false, failed.Error(), nil)
	}
	return e.answer(false, false, reason, failed)
}

// first returns a condition of the effect that is met; if there is none, what failed.
func (e *evaluator) first(ctx context.Context, effect reviewv1.ConditionEffect) (*reviewv1.SubjectAccessReviewCondition, error) {
	var failed []error
	for i := range e.request.ConditionSet.Conditions {
		c := &e.request.ConditionSet.Conditions[i]
		if c.Effect != effect {
			continue
		}
		met, err := e.authorizer.Met(ctx, &Evaluation{Condition: *c, Request: e.request, response: e.response})
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("condition %q: %w", c.ID, err))
		case met:
			return c, nil
		}
	}
	return nil, errors.Join(failed...)
}

func (e *evaluator) answer(allowed, denied bool, reason string, fault error) *reviewv1alpha1.AuthorizationConditionsResponse {
	e.response.Allowed, e.response.Denied, e.response.Reason = allowed, denied, reason
	if fault != nil {
		e.response.EvaluationError = fault.Error()
	}
	return e.response
}

func describe(c *reviewv1.SubjectAccessReviewCondition, what string) string {
	text := fmt.Sprintf("condition %q %s", c.ID, what)
	if c.Description != "" {
		text += ": " + c.Description
	}
	return text
}
