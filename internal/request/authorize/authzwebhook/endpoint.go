package authzwebhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	"proviso.dev/proviso/api/authorizationreview/reviewserver"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
)

// endpoint asks the webhook to evaluate its set. If that fails, the failure mode decides for a set that can deny; any
// other set has no opinion.
func (w *Webhook) endpoint(ctx context.Context, set *conditionSet, facts *expr.Data, data authorizer.ConditionsData) reading {
	answer, err := w.reviewConditions(ctx, set, facts, data)
	if err != nil {
		return reading{
			decision: authorizer.DecisionNoOpinion, reason: "the conditions could not be evaluated", denyFailed: canDeny(&set.answer),
			err: fmt.Errorf("webhook authorizer %s: conditions endpoint: %w", w.name, err),
		}
	}
	believed := set.checked(answer)
	if !believed.lied {
		w.passOn(ctx, answer, isWrite(data))
	}
	return believed
}

// isWrite reports whether a refusal may show. An object that the caller may not read or connect to is not found, and a
// warning about it would reveal that it exists (NI-1).
func isWrite(data authorizer.ConditionsData) bool {
	switch reviewv1alpha1.Operation(data.GetOperation()) {
	case reviewv1alpha1.Create, reviewv1alpha1.Update, reviewv1alpha1.Delete:
		return true
	}
	return false
}

// passOn forwards the endpoint's warnings about a write to the caller, and writes its annotations into the audit event
// under the name of the authorizer. Those that exceed the limits of the API are dropped.
func (w *Webhook) passOn(ctx context.Context, r *reviewv1alpha1.AuthorizationConditionsResponse, write bool) {
	for i, text := range r.Warnings {
		if write && i < reviewserver.MaxWarnings && len(text) <= reviewserver.MaxWarning {
			warning.AddWarning(ctx, w.name, text)
		}
	}
	kept := 0
	for _, key := range slices.Sorted(maps.Keys(r.AuditAnnotations)) {
		name, value := w.name+"/"+key, r.AuditAnnotations[key]
		if kept == reviewserver.MaxAuditAnnotations || len(value) > reviewserver.MaxAuditAnnotation || len(content.IsLabelKey(name)) > 0 {
			continue
		}
		audit.AddAuditAnnotation(ctx, name, value)
		kept++
	}
}

// reasonless is the reason of a deny that the endpoint does not explain.
const reasonless = "the conditions of the webhook deny the request without giving a reason"

// checked rejects results that the set could not have produced (CA-15).
func (s *conditionSet) checked(r *reviewv1alpha1.AuthorizationConditionsResponse) reading {
	lie := func(what string) reading {
		return reading{lied: true, reason: "failed closed", err: fmt.Errorf("webhook authorizer %s: conditions endpoint answered %s, which the conditions cannot give", s.webhook.name, what)}
	}
	denies := canDeny(&s.answer)
	if r.Status != nil && !r.Allowed && r.Reason == "" { // as the design spells a reason (CA-23)
		r.Reason = r.Status.Message
	}
	var evaluation error
	if r.EvaluationError != "" {
		evaluation = fmt.Errorf("webhook authorizer %s: conditions endpoint: %s", s.webhook.name, r.EvaluationError)
	}
	switch {
	case r.Denied && r.Allowed:
		return lie("both allow and deny")
	case r.Denied && !denies:
		return lie("deny")
	case r.Allowed && !s.canAllow():
		return lie("allow")
	case r.Denied:
		// A decision of the webhook, even if it follows from an error: the failure mode has been applied there.
		return reading{decision: authorizer.DecisionDeny, reason: cmp.Or(r.Reason, reasonless)}
	case evaluation != nil && denies:
		// It may be the Deny that failed.
		return reading{decision: authorizer.DecisionNoOpinion, denyFailed: true, reason: reasonFailed, err: evaluation}
	case r.Allowed:
		return reading{decision: authorizer.DecisionAllow, reason: r.Reason, err: evaluation}
	}
	return reading{decision: authorizer.DecisionNoOpinion, reason: r.Reason, err: evaluation}
}

func (s *conditionSet) canAllow() bool {
	for _, c := range s.answer.Conditions {
		if c.Effect == "Allow" {
			return true
		}
	}
	return false
}

func (w *Webhook) reviewConditions(ctx context.Context, set *conditionSet, facts *expr.Data, data authorizer.ConditionsData) (*reviewv1alpha1.AuthorizationConditionsResponse, error) {
	request, err := set.requestFor(facts, data)
	if err != nil {
		return nil, err
	}
	var answer *reviewv1alpha1.AuthorizationConditionsReview
	read := func(body []byte) (err error) {
		answer, err = w.conditions.readConditionsReview(body)
		return err
	}
	review := &reviewv1alpha1.AuthorizationConditionsReview{Request: request}
	if err := w.conditions.post(ctx, review, read, func(a attempt) {
		conditionsCalls.WithContext(ctx).WithLabelValues(w.name, a.result).Inc()
	}); err != nil {
		return nil, err
	}
	if answer.Response == nil {
		return nil, errors.New("the answer has no response")
	}
	return answer.Response, nil
}

// requestFor describes the admission request. Objects have the version in which conditions see them (CA-11).
func (s *conditionSet) requestFor(facts *expr.Data, data authorizer.ConditionsData) (*reviewv1alpha1.AuthorizationConditionsRequest, error) {
	request := &reviewv1alpha1.AuthorizationConditionsRequest{
		Operation: reviewv1alpha1.Operation(data.GetOperation()), ConditionSet: s.answer,
	}
	request.ConditionSet.AuthorizerName = s.webhook.name
	if r := facts.Impersonated(); r != nil {
		request.Operation = reviewv1alpha1.Impersonate
		request.ImpersonatedRequest = &reviewv1alpha1.ImpersonatedRequest{
			Verb: r.Verb, APIGroup: r.APIGroup, APIVersion: r.APIVersion, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		}
		return request, nil
	}
	object, err := facts.Object("")
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	oldObject, err := facts.OldObject("")
	if err != nil {
		return nil, fmt.Errorf("old object: %w", err)
	}
	target, err := facts.Target("")
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	options := facts.Options()
	if target != nil {
		request.Target = &runtime.RawExtension{} // webhooks that do not know it are not told of none
	}
	for _, part := range []struct {
		from runtime.Object
		to   *runtime.RawExtension
	}{{object, &request.Object}, {oldObject, &request.OldObject}, {options, &request.Options}, {target, request.Target}} {
		if part.from == nil {
			continue
		}
		if part.to.Raw, err = json.Marshal(part.from); err != nil {
			return nil, err
		}
	}
	return request, nil
}
