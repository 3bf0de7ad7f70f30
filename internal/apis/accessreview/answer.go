package accessreview

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
)

// answerer answers the question that the three access reviews have in common.
type answerer struct {
	chain    Chain
	requests Requests
	sight    Sight
	guards   Guards // nil if there are none
	fresh    Fresh
}

// Fresh gives the policy that a question is answered by, in the context, and its revision: one that is at least as new
// as the token says, unless that is empty.
type Fresh interface {
	Renew(ctx context.Context, atLeast string) (context.Context, string, error)
}

// fill answers a question by policy that is as new as it wants.
func (a *answerer) fill(ctx context.Context, status *reviewv1.SubjectAccessReviewStatus, attrs authorizer.AttributesRecord, question *reviewv1.Question, want form) error {
	revision := ""
	switch {
	case a.fresh != nil:
		var err error
		if ctx, revision, err = a.fresh.Renew(ctx, question.AtLeastRevision); err != nil {
			return err
		}
	case question.AtLeastRevision != "":
		return apierrors.NewBadRequest("spec.atLeastRevision: the policy of this server has no revisions")
	}
	ctx, err := at(ctx, question)
	if err != nil {
		return err
	}
	*status = a.answer(ctx, attrs, want)
	if question.Time == nil && question.AtLeastRevision == "" && want <= own {
		return nil // as Kubernetes answers, to the byte
	}
	status.PolicyRevision = revision
	if question.Time != nil || want > own {
		status.Until = a.until(ctx, attrs, want, status)
	}
	return nil
}

// answer gives the status of a review. Where the server asks about two verbs, both count.
func (a *answerer) answer(ctx context.Context, attrs authorizer.AttributesRecord, want form) reviewv1.SubjectAccessReviewStatus {
	if err := a.sight.Known(ctx, &attrs); err != nil {
		return reviewv1.SubjectAccessReviewStatus{SubjectAccessReviewStatus: authorizationv1.SubjectAccessReviewStatus{EvaluationError: evaluationError(err, &attrs)}}
	}
	status := a.ask(ctx, attrs, want)
	if refused(status) {
		return status
	}
	verb := a.requests.AlsoNeeds(ctx, &attrs)
	if verb == "" {
		return status
	}
	further := attrs
	further.Verb = verb
	return both(status, a.ask(ctx, further, want), fmt.Sprintf("%s on %s/%s requires %s as well", attrs.Verb, attrs.Resource, attrs.Subresource, verb))
}

// refused reports whether a request is refused whatever the object is.
func refused(s reviewv1.SubjectAccessReviewStatus) bool {
	return !s.Allowed && s.ConditionsChain == nil && s.ConditionalDecision == nil
}

// both is yes where both are. Where either depends on conditions, those are shown; two different sets of conditions
// have no common form, and are a no.
func both(first, second reviewv1.SubjectAccessReviewStatus, why string) reviewv1.SubjectAccessReviewStatus {
	switch {
	case second.Allowed, equality.Semantic.DeepEqual(first, second):
		return first
	case first.Allowed && !refused(second):
		return second
	case !refused(second):
		second.ConditionsChain, second.ConditionalDecision = nil, nil
		why += ", and each depends on other conditions: ask about each"
	}
	second.Reason = strings.TrimPrefix(second.Reason+"; "+why, "; ")
	return second
}

// ask answers about one verb, conditional only if the caller asked for that form, and the decision is conditional,
// and the server would honour the conditions of such a request.
func (a *answerer) ask(ctx context.Context, attrs authorizer.AttributesRecord, want form) reviewv1.SubjectAccessReviewStatus {
	if want == unconditional || want == own {
		status := stock(ctx, a.chain.Walk(attrs), attrs, nil)
		if want == own {
			a.unite(ctx, &status, attrs)
		}
		return status
	}
	steps, walk := a.walk(ctx, attrs, want == chainForMachines)
	decision := fold(steps)
	possible := decision.PossibleDecisions()
	notHonoured := concrete(attrs)
	if notHonoured == nil {
		notHonoured = a.requests.Unseen(attrs)
	}
	switch {
	case notHonoured != nil && !decision.IsUnconditional():
		return stock(ctx, walk, attrs, notHonoured)
	case notHonoured == nil && possible.Has(authorizer.DecisionAllow):
		// A request that is refused anyway needs no list of further obstacles.
		if front := a.inFront(ctx, attrs); len(front) > 0 {
			if decision.IsAllow() {
				steps = steps[len(steps)-1:]
			}
			steps = append(front, steps...)
			decision = fold(steps)
		}
	}
	status := reviewv1.SubjectAccessReviewStatus{SubjectAccessReviewStatus: plain(decision, steps, &attrs)}
	var inParts string
	if decision.IsNoOpinion() && want != chainForMachines {
		var whole bool
		if inParts, whole = a.requests.United(ctx, &attrs); inParts != "" {
			decision, steps = united(steps, inParts, whole)
			status = reviewv1.SubjectAccessReviewStatus{SubjectAccessReviewStatus: plain(decision, steps, &attrs)}
		}
	}
	if decision.IsUnconditional() {
		status.AuthorizationDecision = decidedBy(ctx, walk, decision, steps)
		return status
	}
	if inParts != "" {
		status.Reason = strings.TrimPrefix(status.Reason+"; "+inParts, "; ")
	} else if want != chainForMachines {
		if text := a.requests.Narrowed(ctx, &attrs); text != "" {
			status.Reason = authorize.SayNarrowed(status.Reason, text)
		}
	}
	switch want {
	case tree:
		status.ConditionalDecision = treeOf(decision)
	default:
		status.ConditionsChain = chainOf(steps, want == chainForPeople)
	}
	return status
}

// unite answers the caller of a list or watch that is not allowed as a whole: they may make it, and it shows what they
// may see. Clients ask before they list.
func (a *answerer) unite(ctx context.Context, status *reviewv1.SubjectAccessReviewStatus, attrs authorizer.AttributesRecord) {
	if status.Allowed || status.Denied || status.EvaluationError != "" {
		return
	}
	if text, _ := a.requests.United(ctx, &attrs); text != "" {
		status.Allowed, status.Reason = true, text
	}
}

// linkUnion names, among the authorizers, what allows a list or watch in parts.
const linkUnion = "union"

// united is the answer of the authorizers with a condition on each object that stands for the parts. Nobody else can
// evaluate it.
func united(steps []step, text string, whole bool) (authorizer.ConditionsAwareDecision, []step) {
	parts := authorizer.ConditionsAwareDecisionAllow(text, nil)
	if !whole {
		parts = partly(text)
	}
	steps = append(steps, step{name: linkUnion, link: authorize.Link{Name: linkUnion}, decision: parts})
	return fold(steps), steps
}

func partly(text string) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{authorizer.GenericCondition{
		ID: expr.IDDomain + "/" + linkUnion, Type: expr.TypeCEL, Condition: "false", Description: text,
	}})
}

// decidedBy returns who decided, in the shape of KEP-6001: the first step with the same unconditional decision; no
// authorizer if there is none.
func decidedBy(ctx context.Context, walk authorize.Walk, decision authorizer.ConditionsAwareDecision, steps []step) *reviewv1.AuthorizationDecision {
	final, _, _ := authorize.Parts(decision)
	for _, s := range steps {
		if final != authorizer.DecisionNoOpinion && s.decision.IsAllow() == decision.IsAllow() && s.decision.IsDeny() == decision.IsDeny() {
			return walk.Decided(ctx, s.link, final, s.decision.Reason())
		}
	}
	return walk.Decided(ctx, authorize.Link{}, final, "")
}

// stock returns the answer of a server without conditions. It is for callers that do not know conditions, and for
// requests on which conditions would not be honoured: they fold to Deny or to no opinion.
func stock(ctx context.Context, walk authorize.Walk, attrs authorizer.AttributesRecord, notHonoured error) reviewv1.SubjectAccessReviewStatus {
	decision, reason, err := walk.Fold(ctx)
	if notHonoured != nil && decision != authorizer.DecisionAllow {
		if reason != "" {
			reason += "; "
		}
		reason += "a condition is not honoured here: " + notHonoured.Error()
	}
	return reviewv1.SubjectAccessReviewStatus{SubjectAccessReviewStatus: authorizationv1.SubjectAccessReviewStatus{
		Allowed:         decision == authorizer.DecisionAllow,
		Denied:          decision == authorizer.DecisionDeny,
		Reason:          reason,
		EvaluationError: evaluationError(err, &attrs),
	}}
}

// step is what one authorizer answered, or something in front of them.
type step struct {
	name     string
	failOpen bool
	link     authorize.Link
	decision authorizer.ConditionsAwareDecision
}

// walk asks the authorizers in order, up to the first unconditional answer or, if that is enough, the first possible
// Allow.
func (a *answerer) walk(ctx context.Context, attrs authorizer.Attributes, stopAtAllow bool) ([]step, authorize.Walk) {
	var steps []step
	walk := a.chain.Walk(attrs)
	for link, d := range walk.Answers(ctx) {
		steps = append(steps, step{name: link.Name, failOpen: link.FailOpen, link: link, decision: d})
		walk.Keep(link, d)
		if d.ContainsUnconditionalAllowOrDeny() || stopAtAllow && d.PossibleDecisions().Has(authorizer.DecisionAllow) {
			break
		}
	}
	return steps, walk
}

// inFront is what stands before the chain. It is not an authorizer, so an answer that could allow is not believed.
func (a *answerer) inFront(ctx context.Context, attrs authorizer.Attributes) []step {
	if a.guards == nil {
		return nil
	}
	var steps []step
	for _, e := range a.guards.Before(ctx, attrs) {
		d := e.Decision
		switch {
		case d.IsNoOpinion():
			continue
		case d.PossibleDecisions().Has(authorizer.DecisionAllow):
			d = authorizer.ConditionsAwareDecisionDeny("failed closed", fmt.Errorf("%s can only deny, but answered %s", e.Name, d))
		}
		steps = append(steps, step{name: e.Name, link: authorize.Link{Name: e.Name}, decision: d})
	}
	return steps
}

// fold joins the steps to one decision, which is unconditional if every way through them ends the same.
func fold(steps []step) authorizer.ConditionsAwareDecision {
	var union authorizer.ConditionsAwareDecisionUnion
	for _, s := range steps {
		union.Add(s.name, s.decision)
	}
	return union.ToDecision()
}

// plain is the part of the status that Kubernetes knows. A conditional decision is neither allowed nor denied in it.
func plain(decision authorizer.ConditionsAwareDecision, steps []step, attrs *authorizer.AttributesRecord) authorizationv1.SubjectAccessReviewStatus {
	status := authorizationv1.SubjectAccessReviewStatus{Allowed: decision.IsAllow(), Denied: decision.IsDeny()}
	if status.Allowed || status.Denied {
		// The last step decided, and speaks for itself as in the answer to a caller that asks for no conditions.
		if last := steps[len(steps)-1].decision; last.IsAllow() == status.Allowed && last.IsDeny() == status.Denied {
			decision = last
		}
		status.Reason = decision.Reason()
		status.EvaluationError = evaluationError(decision.Error(), attrs)
		return status
	}
	var reasons []string
	var errs []error
	for _, s := range steps {
		if r := s.decision.Reason(); r != "" && s.decision.IsNoOpinion() {
			reasons = append(reasons, s.name+": "+r)
		}
		if err := s.decision.Error(); err != nil {
			errs = append(errs, err)
		}
	}
	status.Reason = strings.Join(reasons, "\n")
	status.EvaluationError = evaluationError(utilerrors.NewAggregate(errs), attrs)
	return status
}
