package authorize

import (
	"context"
	"fmt"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Chain is itself an authorizer, for every caller that cannot carry a condition to admission: reviews, escalation checks,
// admission plugins, the CEL authorizer library. There, conditions fold to Deny (if they hold a Deny) or NoOpinion.
var _ authorizer.Authorizer = (*Chain)(nil)

// Authorize asks the links in order; the first Allow or Deny decides.
func (c *Chain) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	var w walk
	attrs = c.scoped(attrs)
	for _, link := range c.Links() {
		decision, reason, err := link.Authorizer.Authorize(ctx, attrs)
		if decision != authorizer.DecisionNoOpinion {
			if FailedClosed(err) {
				err = nil // it has decided; of an error, upstream would make a 500
			}
			return decision, reason, err
		}
		w.note(link.Name, reason, err)
	}
	return authorizer.DecisionNoOpinion, strings.Join(w.reasons, "\n"), utilerrors.NewAggregate(w.errs)
}

// ConditionsAwareAuthorize is the eager form that reviews show to people: every link up to the first unconditional answer.
func (c *Chain) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	var union authorizer.ConditionsAwareDecisionUnion
	attrs = c.scoped(attrs)
	for _, link := range c.Links() {
		d := link.Authorizer.ConditionsAwareAuthorize(ctx, attrs)
		union.Add(link.Name, d)
		if d.ContainsUnconditionalAllowOrDeny() {
			break
		}
	}
	return union.ToDecision()
}

// EvaluateConditions resolves what ConditionsAwareAuthorize answered.
func (c *Chain) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	if !d.IsUnion() {
		return d.FailureDecision(), "failed closed", fmt.Errorf("the authorizer chain can only evaluate what it answered itself, got %s", d)
	}
	var w walk
	for name, sub := range d.UnionedDecisions() {
		link, ok := c.link(name)
		if !ok {
			return d.FailureDecision(), "failed closed", fmt.Errorf("the authorizer chain has no link %q", name)
		}
		decision, reason, err := evaluate(ctx, link, sub, data)
		if decision != authorizer.DecisionNoOpinion {
			return decision, reason, err
		}
		w.note(name, reason, err)
	}
	return authorizer.DecisionNoOpinion, strings.Join(w.reasons, "\n"), utilerrors.NewAggregate(append(w.errs, w.failures...))
}

func (c *Chain) link(name string) (Link, bool) {
	for _, l := range c.Links() {
		if l.Name == name {
			return l, true
		}
	}
	return Link{}, false
}
