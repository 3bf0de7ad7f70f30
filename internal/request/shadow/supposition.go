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

// maxSuppositions is for how many rules a single request is decided again: for as many as a role can have, it would
// cost a multiple of the request. Further ones count as undecided.
const maxSuppositions = 16

// supposition is one rule that is not enforced, and the chain as if it was.
type supposition struct {
	rule  shadowrule.Rule
	chain *authorize.Chain
	// unasked is set if an authorizer would have to be asked that is asked for decisions only.
	unasked *bool
}

// suppositions are those for the rules that apply to the request, with the link that ended its walk; more are rules
// that are too many.
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

// lastAsked is where the walk of a request ended: which authorizers have answered, and what.
type lastAsked struct {
	// link is the last; empty if all were asked and had no opinion.
	link string
	// final tells that it decided, without a condition.
	final    bool
	decision authorizer.Decision
	// unknown: only the decision is known, and not who made it.
	unknown bool
}

func lastAskedOf(p authorize.Partial) lastAsked {
	return lastAsked{link: p.Authorizer, final: p.Pending == nil, decision: p.Decision}
}

// supposing is the chain as if one more rule of a tier applied to the request. A webhook is a call to another server,
// and is not made for the sake of a rule that decides nothing: what it has answered is remembered.
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

// would is what becomes of the request with the rule, if was is what becomes of it without.
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
