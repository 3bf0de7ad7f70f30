package authorize

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Chain is itself an authorizer, for every caller that cannot carry a condition to admission: reviews, escalation
// checks, admission plugins, the CEL authorizer library. There, conditions fold to Deny (if they hold a Deny) or
// NoOpinion.
var _ authorizer.Authorizer = (*Chain)(nil)

// Authorize asks the links in order; the first Allow or Deny decides.
func (c *Chain) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	return c.Walk(attrs).Fold(ctx)
}

// ConditionsAwareAuthorize is the eager form that reviews show to people: it asks every link up to the first
// unconditional answer.
func (c *Chain) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	var union authorizer.ConditionsAwareDecisionUnion
	w := c.Walk(attrs)
	for link, d := range w.Answers(ctx) {
		union.Add(link.Name, d)
		if d.ContainsUnconditionalAllowOrDeny() {
			break
		}
	}
	return union.ToDecision()
}

// EvaluateConditions resolves an answer of ConditionsAwareAuthorize.
func (c *Chain) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	if !d.IsUnion() {
		return d.FailureDecision(), "failed closed", fmt.Errorf("the authorizer chain can only evaluate what it answered itself, got %s", d)
	}
	var w Walk
	for name, sub := range d.UnionedDecisions() {
		link, ok := c.link(name)
		if !ok {
			return d.FailureDecision(), "failed closed", fmt.Errorf("the authorizer chain has no link %q", name)
		}
		w.Keep(link, sub)
	}
	var r record
	for link, sub := range w.Answers(ctx) {
		decision, reason, err := evaluate(ctx, link, sub, data)
		if decision != authorizer.DecisionNoOpinion {
			return decision, reason, err
		}
		r.note(link.Name, reason, err)
	}
	return authorizer.DecisionNoOpinion, r.reason(), r.all()
}

func (c *Chain) link(name string) (Link, bool) {
	for _, l := range c.Links() {
		if l.Name == name {
			return l, true
		}
	}
	return Link{}, false
}
