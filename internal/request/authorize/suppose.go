package authorize

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/shadowrule"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/request/shadow"
)

// MaxSuppositions is for how many rules a single request is decided anew: as many again as a role can have would cost a
// multiple of the request. Further ones count as undecided.
const MaxSuppositions = 16

// supposition is one rule that is not enforced, and the chain as if it was.
type supposition struct {
	rule  shadowrule.Rule
	chain *Chain
	// unasked is set if an authorizer would have to be asked that is asked for decisions only.
	unasked *bool
}

// suppositions are those for the rules that apply to the request, with the link that ended its walk; more are rules
// that are too many.
func (c *Chain) suppositions(shadows *ruleset.Index, attrs authorizer.Attributes, decided lastAsked) (all []supposition, more []shadowrule.Rule) {
	var q ruleset.Query
	q.Reset(shadows, c.Scoped(attrs))
	for _, link := range c.Links() {
		tracer, ok := link.Authorizer.(RuleTracer)
		if !ok {
			continue
		}
		for _, hit := range q.Applying(tracer.Tier()) {
			if len(all) >= MaxSuppositions {
				more = append(more, shadowrule.OfHit(hit))
				continue
			}
			unasked := new(bool)
			all = append(all, supposition{shadowrule.OfHit(hit), c.supposing(tracer.Tier(), hit, decided, unasked), unasked})
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

func (v Partial) lastAsked() lastAsked {
	return lastAsked{link: v.Authorizer, final: v.Pending == nil, decision: v.Decision}
}

// supposing is the chain as if one more rule of a tier applied to the request. A webhook is a call to somebody else,
// and is not made for the sake of a rule that decides nothing: what it has answered is remembered.
func (c *Chain) supposing(tier ruleset.Tier, hit ruleset.Hit, decided lastAsked, unasked *bool) *Chain {
	links := slices.Clone(c.Links())
	stop := slices.IndexFunc(links, func(l Link) bool { return l.Name == decided.link })
	switch {
	case decided.unknown:
		stop = -1
	case stop < 0:
		stop = len(links)
	}
	for i := range links {
		tracer, ruled := links[i].Authorizer.(RuleTracer)
		switch {
		case ruled && tracer.Tier() == tier:
			links[i].Authorizer = tracer.Supposing(hit)
		case ruled:
			links[i].Authorizer = tracer.Supposing(ruleset.Hit{})
		case links[i].Type != TypeWebhook:
		case i == stop && decided.final:
			links[i].Authorizer = remembered{decision: decided.decision}
		case i < stop:
			links[i].Authorizer = remembered{decision: authorizer.DecisionNoOpinion}
		default:
			links[i].Authorizer = remembered{decision: authorizer.DecisionNoOpinion, unasked: unasked}
		}
	}
	supposed := &Chain{ClusterWide: c.ClusterWide}
	supposed.links.Store(&links)
	return supposed
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
func (s supposition) would(was shadow.Answer, supposed authorizer.Decision) shadow.Answer {
	switch {
	case *s.unasked:
		return shadow.Undecided
	case s.rule.Denies && supposed == authorizer.DecisionDeny:
		return shadow.Deny
	case !s.rule.Denies && supposed == authorizer.DecisionAllow:
		return shadow.Allow
	}
	return was
}

// shadows is the index of rules that are not enforced; nil if there are none, or nobody wants to know.
func (g *Gate) shadows(holder *requestctx.State) *ruleset.Index {
	if g.Shadow == nil || holder == nil || holder.Snapshot == nil {
		return nil
	}
	return holder.Snapshot.Shadow.Rules
}

// suppose looks at what rules that are not enforced would have made of the request, after it was decided. It never
// changes the decision, and spends nothing of what the decision may spend (TR-6). What the object decides is settled in
// admission; a request that is refused before its body is read is then undecided.
func (g *Gate) suppose(ctx context.Context, holder *requestctx.State, slot requestctx.Slot, attrs authorizer.Attributes, v Partial, decision authorizer.Decision) {
	shadows := g.shadows(holder)
	if shadows == nil {
		return
	}
	ctx = expr.WithBudget(ctx, expr.NewBudget(0))
	passed := decision == authorizer.DecisionAllow
	waits := passed && !holder.Get(slot).IsAllowed()
	was := shadow.AnswerOf(passed)
	all, more := g.Chain.suppositions(shadows, attrs, v.lastAsked())
	for _, rule := range more {
		g.Shadow.Count(rule, attrs, was, shadow.Undecided)
	}
	for _, s := range all {
		supposed := s.chain.Decide(ctx, attrs)
		decision, open := supposed.Decision, supposed.rest != nil
		if open && (!g.Conditional || g.Honours(attrs) != nil || passed && s.rule.Denies && IsRead(attrs)) {
			decision, _, _ = supposed.Fold(ctx)
			open = false
		}
		would := s.would(was, decision)
		switch {
		case passed && (open || waits) && !IsRead(attrs):
			holder.Suppose(slot, &waiting{supposition: s, gate: g, attrs: attrs, verdict: supposed, decision: decision, open: open})
			continue
		case !s.rule.Denies && (!passed && supposed.Pending != nil && open || waits):
			would = shadow.Undecided // by objects that are not known here
		case open:
			would = was
		}
		g.Shadow.Note(ctx, s.rule, attrs, was, would)
	}
	if !passed {
		g.supposeFields(ctx, holder, attrs)
	}
}

// supposeFields: a rule that would give permissions for single fields could have let the request in. By which fields it
// changes nobody knows.
func (g *Gate) supposeFields(ctx context.Context, holder *requestctx.State, attrs authorizer.Attributes) {
	if !HasFields(holder.Snapshot, attrs) {
		return
	}
	asked := withVerb{attrs, fieldperm.Verb}
	all, _ := g.Chain.suppositions(g.shadows(holder), asked, lastAsked{unknown: true})
	for _, s := range all {
		if !s.rule.Denies {
			g.Shadow.Note(ctx, s.rule, attrs, shadow.Deny, shadow.Undecided)
		}
	}
}

// supposeNow is suppose where everything is known that conditions can be about.
func (g *Gate) supposeNow(ctx context.Context, attrs authorizer.Attributes, decided lastAsked, allowed bool, data authorizer.ConditionsData) {
	shadows := g.shadows(requestctx.From(ctx))
	if shadows == nil || isQuiet(ctx) {
		return
	}
	ctx = expr.WithBudget(ctx, expr.NewBudget(0))
	if a, ok := data.(Aside); ok {
		data = a.Aside()
	}
	was := shadow.AnswerOf(allowed)
	all, _ := g.Chain.suppositions(shadows, attrs, decided)
	for _, s := range all {
		supposed := s.chain.Decide(ctx, attrs)
		decision := supposed.Decision
		switch {
		case supposed.rest != nil && data != nil && g.Conditional:
			decision = supposed.rest.Resolve(ctx, data).Decision
		case supposed.rest != nil:
			decision, _, _ = supposed.Fold(ctx)
		}
		g.Shadow.Note(ctx, s.rule, attrs, was, s.would(was, decision))
	}
}

type quiet struct{}

// Quietly lets questions be asked for the sake of something that is not enforced: they are not counted.
func Quietly(ctx context.Context) context.Context { return context.WithValue(ctx, quiet{}, true) }

func isQuiet(ctx context.Context) bool { return ctx.Value(quiet{}) != nil }

// Aside is data of a decision that gives the same for rules that are not enforced, with a budget of its own.
type Aside interface {
	Aside() authorizer.ConditionsData
}

// waiting is a supposition that waits for the object.
type waiting struct {
	supposition
	gate     *Gate
	attrs    authorizer.Attributes
	verdict  Partial
	decision authorizer.Decision
	open     bool
}

// Settle implements requestctx.Supposition.
func (w *waiting) Settle(ctx context.Context, data authorizer.ConditionsData, allowed bool) {
	decision := w.decision
	if w.open {
		decision = w.verdict.rest.Resolve(ctx, data).Decision
	}
	was := shadow.AnswerOf(allowed)
	w.gate.Shadow.Note(ctx, w.rule, w.attrs, was, w.would(was, decision))
}

// SupposeAccess takes down, where authorization is a call of its own, what rules that are not enforced would have made
// of a request that no admission follows. The others are settled there: see SupposeAdmission.
func (g *Gate) SupposeAccess(ctx context.Context, attrs authorizer.Attributes, v Verdict) {
	holder, decision := requestctx.From(ctx), authorizer.DecisionDeny
	if g.shadows(holder) == nil {
		return
	}
	if v.Answer == Allowed || v.Answer == Open {
		if attrs.IsResourceRequest() && (!attrs.IsReadOnly() || isConnect(attrs)) {
			return
		}
		decision = authorizer.DecisionAllow
	}
	holder.Put(requestctx.Request, attrs, v.Pass)
	g.suppose(ctx, holder, requestctx.Request, attrs, v.known, decision)
}

// SupposeAdmission is SupposeAccess for what is admitted: the enforcer settles it. The pass was put into the holder.
func (g *Gate) SupposeAdmission(ctx context.Context, attrs authorizer.Attributes, v Verdict) {
	g.suppose(ctx, requestctx.From(ctx), requestctx.Request, attrs, v.known, authorizer.DecisionAllow)
}
