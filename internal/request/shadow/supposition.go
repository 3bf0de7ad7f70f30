package shadow

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/shadowrule"
	"proviso.dev/proviso/internal/request/authorize"
)

// maxSuppositions bounds the rules for which a single request is decided again: for as many as a role can have, that
// would cost a multiple of the request. Further ones count as undecided.
const maxSuppositions = 16

// supposition is one rule that is not enforced, and the chain as if it were.
type supposition struct {
	rule  shadowrule.Rule
	chain *authorize.Chain
	// unasked is set if the walk would need an authorizer that is only asked for real decisions.
	unasked *bool
}

// suppositions returns a supposition for each rule that applies to the request, given where its walk ended; more are
// the rules beyond the limit.
func suppositions(c *authorize.Chain, shadows *ruleset.Index, attrs authorizer.Attributes, decided lastAsked) (all []supposition, more []shadowrule.Rule) {
	var q ruleset.Query
	q.Reset(shadows, c.Scoped(attrs))
	for _, link := range c.Links() {
		tracer, ok := link.Authorizer.(authorize.RuleTracer)
		if !ok {
			continue
		}
		for _, hit := range q.Applying(tracer.Tier()) {
			if len(all) >= maxSuppositions {
				more = append(more, shadowrule.OfHit(hit))
				continue
			}
			unasked := new(bool)
			all = append(all, supposition{shadowrule.OfHit(hit), supposing(c, tracer.Tier(), hit, decided, unasked), unasked})
		}
	}
	return all, more
}

// lastAsked is where the walk of a request ended: which authorizers have answered, and how.
type lastAsked struct {
	// link is the last one asked; empty if all were asked and had no opinion.
	link string
	// final is true if it decided without a condition.
	final    bool
	decision authorizer.Decision
	// unknown is true if only the decision is known, not which link made it.
	unknown bool
}

func lastAskedOf(p authorize.Partial) lastAsked {
	return lastAsked{link: p.Authorizer, final: p.Pending == nil, decision: p.Decision}
}

// supposing returns the chain as if one more rule of a tier applied to the request. A webhook is a call to another
// server, which is not repeated for a rule that decides nothing: its earlier answer is reused.
func supposing(c *authorize.Chain, tier ruleset.Tier, hit ruleset.Hit, decided lastAsked, unasked *bool) *authorize.Chain {
	stop := slices.IndexFunc(c.Links(), func(l authorize.Link) bool { return l.Name == decided.link })
	switch {
	case decided.unknown:
		stop = -1
	case stop < 0:
		stop = len(c.Links())
	}
	return c.Relinked(func(i int, link authorize.Link) authorizer.Authorizer {
		tracer, ruled := link.Authorizer.(authorize.RuleTracer)
		switch {
		case ruled && tracer.Tier() == tier:
			return tracer.Supposing(hit)
		case ruled:
			return tracer.Supposing(ruleset.Hit{})
		case link.Type != authorize.TypeWebhook:
			return link.Authorizer
		case i == stop && decided.final:
			return remembered{decision: decided.decision}
		case i < stop:
			return remembered{decision: authorizer.DecisionNoOpinion}
		}
		return remembered{decision: authorizer.DecisionNoOpinion, unasked: unasked}
	})
}

// remembered is an authorizer that is not asked again.
type remembered struct {
	decision authorizer.Decision
	unasked  *bool
}

var errNotAsked = errors.New("is not asked about rules that are not enforced")

func (r remembered) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	if r.unasked != nil {
		*r.unasked = true
		return authorizer.DecisionNoOpinion, "", errNotAsked
	}
	return r.decision, "", nil
}

func (r remembered) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(r.Authorize(ctx, attrs))
}

func (r remembered) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", errNotAsked
}

// would returns the answer to the request with the rule; was is the answer without it.
func (s supposition) would(was Answer, supposed authorizer.Decision) Answer {
	switch {
	case *s.unasked:
		return Undecided
	case s.rule.Denies && supposed == authorizer.DecisionDeny:
		return Deny
	case !s.rule.Denies && supposed == authorizer.DecisionAllow:
		return Allow
	}
	return was
}
