package authorize

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Step is the answer of one link of the chain to a request.
type Step struct {
	Link Link
	// Asked is false if an earlier link had decided. The rest is then empty.
	Asked bool
	// Answer is the link's answer without the object.
	Answer authorizer.ConditionsAwareDecision
	// Open is true if the answer depends on the object. Otherwise Decision is final for this link.
	Open     bool
	Decision authorizer.Decision
	Reason   string
	Err      error
}

// Trace asks the links one by one, as a request would, and keeps every answer. With data, conditions are evaluated;
// without, they stay open and the walk continues after them, up to the first answer that ends it whatever the object
// is. If conditions on such a request would not be honoured, they are folded as the chain folds them.
func (c *Chain) Trace(ctx context.Context, attrs authorizer.Attributes, data authorizer.ConditionsData, honoured bool) []Step {
	var steps []Step
	w := c.Walk(attrs)
	for link, answer := range w.Answers(ctx) {
		s := Step{Link: link, Asked: true, Answer: answer}
		switch {
		case answer.IsUnconditional() || honoured && data != nil:
			s.Decision, s.Reason, s.Err = evaluate(ctx, link, answer, data)
		case honoured:
			s.Open = true
		default:
			s.Decision, s.Reason, s.Err = link.Authorizer.Authorize(ctx, w.attrs)
		}
		steps = append(steps, s)
		if !s.Open && s.Decision != authorizer.DecisionNoOpinion {
			break
		}
	}
	for _, link := range w.rest {
		steps = append(steps, Step{Link: link})
	}
	return steps
}

// Applied is a rule that applies to a request.
type Applied struct {
	Hit ruleset.Hit
	// Condition is the rule's; nil if it has none.
	Condition authorizer.Condition
	// Known is the truth of the condition with the request alone. It is True without a condition.
	Known expr.Truth
	// Yields is true if the rule denies in a namespace what a grant for the whole cluster allows.
	Yields bool
}

// RuleTracer is a link that decides by rules of the index.
type RuleTracer interface {
	// Tier is the part of the index that the link asks.
	Tier() ruleset.Tier
	// Applying lists every rule that applies to the request, once per binding, denies first.
	Applying(ctx context.Context, attrs authorizer.Attributes) []Applied
	// Supposing returns the link as if one more rule applied to the requests that it is asked about. It counts nothing.
	Supposing(hit ruleset.Hit) authorizer.Authorizer
}

var _ RuleTracer = (*Tier)(nil)

// Supposing implements RuleTracer.
func (t *Tier) Supposing(hit ruleset.Hit) authorizer.Authorizer {
	supposing := *t
	supposing.supposed = hit
	return &supposing
}

// Tier is the part of the index that is asked.
func (t *Tier) Tier() ruleset.Tier { return t.tier }

// Applying lists the rules that a decision looks at. It decides nothing.
func (t *Tier) Applying(ctx context.Context, attrs authorizer.Attributes) []Applied {
	snap := SnapshotOf(ctx, t.store)
	ix := snap.Rules
	if ix == nil {
		return nil
	}
	var q ruleset.Query
	q.Reset(ix, attrs)
	req := expr.NewRequestAt(attrs, requestctx.InstantOf(ctx))
	denies := q.AppendAll(nil, t.tier, ruleset.Denies)
	yields := t.tier == ruleset.TierNamespace && len(denies) > 0 && t.yields(ctx, &q, attrs)
	var all []Applied
	for _, hit := range denies {
		a := applied(hit, req, expr.Deny, snap.Served)
		a.Yields = yields
		all = append(all, a)
	}
	for _, hit := range q.AppendAll(nil, t.tier, ruleset.Allows) {
		all = append(all, applied(hit, req, expr.Allow, snap.Served))
	}
	return all
}

// Explain returns one rule with the truth of its condition under the request.
func Explain(ctx context.Context, hit ruleset.Hit, attrs authorizer.Attributes) Applied {
	effect := expr.Allow
	if hit.Effect() == ruleset.Denies {
		effect = expr.Deny
	}
	return applied(hit, expr.NewRequestAt(attrs, requestctx.InstantOf(ctx)), effect, nil)
}

func applied(hit ruleset.Hit, req *expr.Request, effect expr.Effect, served *snapshot.Served) Applied {
	a := Applied{Hit: hit, Known: expr.True}
	if hit.Condition() == nil && hit.Names() == nil {
		return a
	}
	var c ruleCondition
	c.bind(hit)
	o := c.decide(req, effect)
	a.Known = o.Truth()
	switch {
	case a.Known == expr.Unresolved && effect == expr.Allow && selected(&c, req, served):
		a.Known = expr.True
	case a.Known == expr.Unresolved:
		c.residual = o.Residual()
	}
	a.Condition = &c
	return a
}
