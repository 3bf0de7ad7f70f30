package authorize

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Counted wraps a tier and counts its decisions, under upstream's names, where and when upstream's metrics count those
// of an authorizer. Upstream's own wrapper would hide the tier.
func Counted(t *Tier, count func(outcome string)) authorizer.Authorizer { return &counted{t, count} }

type counted struct {
	*uncounted
	counts func(outcome string)
}

// uncounted is an alias of Tier for embedding: a field called Tier would clash with the method Tier.
type uncounted = Tier

var (
	_ opener                  = (*counted)(nil)
	_ RuleTracer              = (*counted)(nil)
	_ authorizer.RuleResolver = (*counted)(nil)
)

func (c *counted) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	return c.fold(ctx, attrs, lists{})
}

func (c *counted) fold(ctx context.Context, attrs authorizer.Attributes, how lists) (authorizer.Decision, string, error) {
	decision, reason, err := c.uncounted.fold(ctx, attrs, how)
	count(c.counts, decision)
	return decision, reason, err
}

func (c *counted) open(ctx context.Context, attrs authorizer.Attributes, how lists) (authorizer.ConditionsAwareDecision, *openSet) {
	d, set := c.uncounted.open(ctx, attrs, how)
	if set != nil {
		set.counts = c.counts
		c.counts("conditional")
		return d, set
	}
	decision, _, _ := Parts(d)
	count(c.counts, decision)
	return d, nil
}

func (c *counted) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return decisionOf(c.open(ctx, attrs, lists{}))
}

func (c *counted) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	decision, reason, err := c.uncounted.EvaluateConditions(ctx, d, data)
	count(c.counts, decision)
	return decision, reason, err
}

// count counts a final decision. NoOpinion is not counted.
func count(counts func(outcome string), d authorizer.Decision) {
	switch d {
	case authorizer.DecisionAllow:
		counts("allowed")
	case authorizer.DecisionDeny:
		counts("denied")
	case authorizer.DecisionNoOpinion:
	default:
		counts("unknown")
	}
}
