package policyreview

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// SubjectCan answers for one subject; with content the answer is final (PO-15). The stored object is never read, so the
// review reveals nothing about it.
func (r *Reviewer) SubjectCan(ctx context.Context, caller user.Info, namespace string, spec authz.SubjectAccessReviewSpec) (authz.SubjectAccessReviewStatus, error) {
	var status authz.SubjectAccessReviewStatus
	sees := r.sightOf(ctx, caller) // by the policy of now
	ctx = r.at(ctx, spec.Time)
	snap := authorize.SnapshotOf(ctx, r.Store)
	if snap.Rules == nil {
		return status, errUnsynced()
	}
	subject := caller
	switch {
	case spec.UserName != "":
		ctx, subject = requestctx.AboutOthers(ctx), userOf(ruleset.Subject{Name: spec.UserName})
	case spec.GroupName != "":
		ctx, subject = requestctx.AboutOthers(ctx), userOf(ruleset.Subject{Group: true, Name: spec.GroupName})
	}
	attrs, problem := question(snap.Served, subject, namespace, spec.Verb, spec.ResourceKind, spec.ResourceName)
	if problem != "" {
		status.EvaluationError = problem
		return status, nil
	}
	asked := inquiry{Reviewer: r, attrs: attrs}
	if spec.OldContent != nil && spec.Content == nil {
		return status, apierrors.NewInvalid(authz.Kind("SubjectAccessReview"), "", field.ErrorList{
			field.Required(field.NewPath("spec", "content"), "oldContent is the stored object, content what it becomes: give both, or content alone")})
	}
	if spec.Content != nil {
		var err error
		if asked.content, err = r.contentOf(snap.Served, &asked.attrs, spec); err != nil {
			return status, apierrors.NewInvalid(authz.Kind("SubjectAccessReview"), "", field.ErrorList{
				field.Invalid(field.NewPath("spec", "content"), field.OmitValueType{}, err.Error())})
		}
	}
	decision, reason, err := asked.decide(ctx)
	if also := r.Gate.AlsoNeeds(asked.attrs); also != "" && decision == authorizer.DecisionAllow {
		further := asked
		further.attrs.Verb, further.besides = also, []string{asked.attrs.Verb}
		if d, why, problem := further.decide(ctx); d != authorizer.DecisionAllow {
			needs := fmt.Sprintf("%s on %s requires %s as well", spec.Verb, spec.ResourceKind, also)
			asked, decision, reason, err = further, d, strings.TrimPrefix(why+"; "+needs, "; "), problem
		}
	}
	status.Allowed = decision == authorizer.DecisionAllow
	status.Until = asked.until(ctx, status.Allowed)
	if err != nil {
		status.EvaluationError = err.Error()
	}
	allow, deny := reasons(snap.Rules, r.Gate.Chain.Scoped(asked.attrs))
	status.AllowReason = allow
	switch {
	case status.Allowed:
		status.AllowReason = reason
	case reason != "":
		status.DenyReason = reason
	case deny != "":
		status.DenyReason = deny
	default:
		status.DenyReason = "no rule allows it"
	}
	if spec.Trace {
		status.Trace = asked.trace(ctx)
		if w := r.watched(ctx, caller, asked.attrs); w != nil {
			status.Trace.Authorizers = append(status.Trace.Authorizers, *w)
		}
		if text, _ := r.Gate.United(ctx, snap, asked.attrs); text != "" && !status.Allowed {
			status.Trace.Decision = authz.AnswerConditional
		}
		if status.Trace.Decision == authz.AnswerConditional {
			status.Trace.NarrowedTo = r.Gate.Narrowed(ctx, snap, asked.attrs)
		}
	}
	if !concerns(caller, spec) {
		sees.withhold(&status, rulesBehind(ctx, r.Gate.Chain, r.Gate.Chain.Scoped(asked.attrs)))
	}
	return status, nil
}

// inquiry is a question about one subject, with the object that it is about, if that is known.
type inquiry struct {
	*Reviewer
	attrs   authorizer.AttributesRecord
	content *content
	// besides are the verbs that the same request needs besides.
	besides []string
}

// decide gives the answer that a request would get. Without content, conditions fold: an allow that depends on the
// object does not allow, and a deny that does denies (CA-14).
func (q *inquiry) decide(ctx context.Context) (authorizer.Decision, string, error) {
	snap := authorize.SnapshotOf(ctx, q.Store)
	v := q.Gate.Decide(requestctx.With(ctx, snap), q.attrs)
	var decision authorizer.Decision
	var reason string
	var err error
	switch {
	case !v.Hangs(): // so it is not open
		decision, reason, err = v.AtAuthorization(), v.Reason, v.Err
	case q.content != nil: // of a right to single fields what denies is left, and then the fields decide
		out := v.Resolve(ctx, q.content.data())
		decision, reason, err = out.Decision, out.Reason, out.Detail
	default:
		folded := v.Folded(ctx)
		decision, reason, err = folded.AtAuthorization(), folded.Reason, folded.Err
		if to := q.Gate.Narrowed(ctx, snap, q.attrs); to != "" && decision != authorizer.DecisionAllow {
			reason = authorize.SayNarrowed(reason, to)
		}
	}
	if decision == authorizer.DecisionNoOpinion {
		if result, asked := q.byFields(ctx, snap); asked && result.Allowed() {
			decision, reason, err = authorizer.DecisionAllow, fieldsReason, nil
		} else if asked {
			return decision, result.Reason(), result.Err
		}
	}
	if decision != authorizer.DecisionAllow {
		return decision, reason, err
	}
	for _, step := range q.inFront(ctx) { // without content, what hangs on the object is not known
		if step.Decision == authorizer.DecisionDeny && !step.Open {
			return step.Decision, step.Link.Name + ": " + step.Reason, step.Err
		}
	}
	return decision, reason, err
}

// inFront is what the enforcer refuses whatever the chain says. It can only deny; anything else counts as a deny.
func (q *inquiry) inFront(ctx context.Context) []authorize.Step {
	if q.Guards == nil || q.Gate.Unseen(q.attrs) != nil {
		return nil
	}
	var steps []authorize.Step
	for _, e := range q.Guards.Before(ctx, q.attrs) {
		s := authorize.Step{Link: authorize.Link{Name: e.Name}, Asked: true, Answer: e.Decision, Decision: authorizer.DecisionDeny}
		switch {
		case e.Decision.IsNoOpinion():
			continue
		case e.Decision.IsDeny():
			s.Reason, s.Err = e.Decision.Reason(), e.Decision.Error()
		case q.Evaluate == nil || !e.Decision.IsConditionsMap() || e.Decision.PossibleDecisions().Has(authorizer.DecisionAllow):
			s.Reason = "failed closed"
		case q.content == nil:
			s.Open = true
		default:
			s.Decision, s.Reason, s.Err = e.Decision.ConditionsMap().Evaluate(ctx, q.content.data(), q.Evaluate)
		}
		steps = append(steps, s)
	}
	return steps
}

// reasons finds the unconditional rules on both sides, so that both can be shown (PO-8).
func reasons(ix *ruleset.Index, attrs authorizer.Attributes) (allow, deny string) {
	v := ix.Decide(attrs)
	if v.Allow.Found() {
		allow = v.Allow.Reason()
	}
	if v.Deny.Found() {
		deny = v.Deny.Reason()
	}
	return allow, deny
}
