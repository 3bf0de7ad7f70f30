package authorize

import (
	"context"
	"sync"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// elsewhere decides about namespaces that only conditions name: a rule of the master namespace that looks at
// `request.namespace` may allow or deny a list in one of them, but a list over all namespaces has no namespace. Each is
// decided once, as the list of that namespace would be, by the policy of the request.
type elsewhere struct {
	gate  *Gate
	snap  *snapshot.Snapshot
	attrs authorizer.Attributes
	view  requestctx.View
	place bool
	// themselves is true if the namespaces are the objects.
	themselves bool
	// denies is true if a deny looks at `request.namespace`: then each namespace is decided here, whatever rules for
	// all namespaces allow.
	denies bool

	mu    sync.Mutex
	known map[string]part
}

// elsewhere returns nil if no such rule concerns the caller. A deny only takes away what rules for all namespaces show.
func (g *Gate) elsewhere(ctx context.Context, q *ruleset.Query, snap *snapshot.Snapshot, attrs authorizer.Attributes, wide bool) *elsewhere {
	looks := false
	e := &elsewhere{gate: g, snap: snap, attrs: attrs, known: map[string]part{}}
	req := expr.NewRequestAt(attrs, requestctx.InstantOf(ctx))
	h := newHash("elsewhere")
	for _, tier := range [...]ruleset.Tier{ruleset.TierMaster, ruleset.TierRBAC} {
		for _, effect := range [...]ruleset.Effect{ruleset.Denies, ruleset.Allows} {
			for _, hit := range q.AppendConditional(nil, tier, effect) {
				var c ruleCondition
				c.bind(hit)
				at := expr.LooksOf(c.rule)
				looks = looks || at.Where && effect == ruleset.Allows && g.Chain.has(tier)
				e.denies = e.denies || at.Where && effect == ruleset.Denies && g.Chain.has(tier)
				e.place = e.place || at.Namespace
				h.add(identity(&c, req, snap.Served))
			}
		}
	}
	if !looks && !(wide && e.denies) {
		return nil
	}
	h.request(req)
	e.view = requestctx.View(h.Sum(nil))
	return e
}

// deniedPlaces is for lists of namespaces themselves: a deny of the get of a namespace removes it from those that rules
// for all namespaces show. It returns nil if no deny of the master namespace concerns the caller.
func (g *Gate) deniedPlaces(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes, wide bool) *elsewhere {
	if !wide || !g.Chain.has(ruleset.TierMaster) {
		return nil
	}
	var get ruleset.Query
	get.Reset(snap.Rules, oneNamespace(attrs, ""))
	hits := get.AppendConditional(nil, ruleset.TierMaster, ruleset.Denies)
	if len(hits) == 0 && !get.PolicyMaster().Deny.Found() {
		return nil
	}
	req := expr.NewRequestAt(attrs, requestctx.InstantOf(ctx))
	h := newHash("denied places")
	for _, hit := range get.AppendAll(nil, ruleset.TierMaster, ruleset.Denies) {
		var c ruleCondition
		c.bind(hit)
		h.add(identity(&c, req, snap.Served))
	}
	h.request(req)
	return &elsewhere{gate: g, snap: snap, attrs: attrs, themselves: true, denies: true, known: map[string]part{}, view: requestctx.View(h.Sum(nil))}
}

// at decides about one namespace. Wide is what rules for all namespaces show of namespaces themselves.
func (e *elsewhere) at(ctx context.Context, namespace string, wide *each) part {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p, ok := e.known[namespace]; ok {
		return p
	}
	pinned := requestctx.With(ctx, e.snap)
	p := part{each: wide}
	if !e.themselves {
		p, _ = e.gate.partOf(pinned, e.attrs, namespace)
	} else if e.gate.decide(pinned, oneNamespace(e.attrs, namespace), narrowTo).Answer == Denied {
		p = part{}
	}
	if ctx.Err() == nil {
		e.known[namespace] = p
	}
	return p
}
