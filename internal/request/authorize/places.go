package authorize

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// named knows the namespaces that rules of the master namespace name by `request.namespace`: such a rule gives a right
// in some namespaces, as a binding of a namespace does, and so shows them (RD-12). A rule that holds in all namespaces
// alike shows none. Nor does one that looks at the namespace's object, which is not at hand when a get is authorized.
type named struct {
	gate  *Gate
	snap  *snapshot.Snapshot
	attrs authorizer.Attributes
	rules []namedBy
	view  requestctx.View

	mu    sync.Mutex
	known map[string]bool
}

// namedBy is a rule, and what it allows a user to do.
type namedBy struct {
	hit     ruleset.Hit
	actions []ruleset.Action
}

// maxActions is how many actions of a rule are tried that looks at what is asked for. It covers every verb on every
// resource of a server with hundreds of them.
const maxActions = 4096

// named is nil if no such rule concerns the caller. Attrs are a list, watch or get of namespaces.
func (g *Gate) named(ctx context.Context, q *ruleset.Query, snap *snapshot.Snapshot, attrs authorizer.Attributes) *named {
	if !g.Chain.has(ruleset.TierMaster) {
		return nil
	}
	var rules []namedBy
	req := expr.NewRequestAt(attrs, requestctx.InstantOf(ctx))
	h := newHash("named")
	g.holds(snap).Everywhere(q, func(hit ruleset.Hit, a ruleset.Action) bool {
		var c ruleCondition
		c.bind(hit)
		looks := expr.LooksOf(c.rule)
		if !looks.Where || looks.Namespace || looks.Time && req.Time.IsZero() {
			return false
		}
		if n := len(rules); n > 0 && rules[n-1].hit == hit {
			rules[n-1].actions = append(rules[n-1].actions, a)
		} else {
			rules = append(rules, namedBy{hit, []ruleset.Action{a}})
			h.add(identity(&c, req, snap.Served))
		}
		// One action says it all of a rule that does not look at actions, unless its object is the namespace.
		return (looks.Action || isItself(a)) && len(rules[len(rules)-1].actions) < maxActions
	})
	if rules == nil {
		return nil
	}
	n := &named{gate: g, snap: snap, attrs: attrs, rules: rules, known: map[string]bool{}}
	for _, r := range rules {
		for _, a := range r.actions {
			h.add(a.Verb, a.Resource.Group, a.Resource.Resource, a.Sub)
		}
	}
	// What denies a get takes namespaces out again.
	var get ruleset.Query
	get.Reset(snap.Rules, oneNamespace(attrs, ""))
	for _, hit := range get.AppendConditional(nil, ruleset.TierMaster, ruleset.Denies) {
		var c ruleCondition
		c.bind(hit)
		h.add(identity(&c, req, snap.Served))
	}
	if get.PolicyMaster().Deny.Found() {
		h.add("denied")
	}
	h.request(req)
	n.view = requestctx.View(h.Sum(nil))
	return n
}

// has reports whether a rule gives the caller a right in a namespace, perhaps under a further condition on the object.
func (n *named) has(ctx context.Context, namespace string) bool {
	return n != nil && slices.ContainsFunc(n.rules, func(r namedBy) bool {
		return slices.ContainsFunc(r.actions, func(a ruleset.Action) bool { return n.gives(ctx, r.hit, a, namespace) })
	})
}

func (n *named) gives(ctx context.Context, hit ruleset.Hit, a ruleset.Action, namespace string) bool {
	asked := &authorizer.AttributesRecord{User: n.attrs.GetUser(), Verb: a.Verb, APIGroup: a.Resource.Group, Resource: a.Resource.Resource, Subresource: a.Sub, Namespace: namespace, ResourceRequest: true}
	itself := isItself(a)
	if itself {
		asked.Name = namespace
	}
	req := expr.NewRequestAt(asked, requestctx.InstantOf(ctx))
	if !itself {
		req = req.Unnamed()
	}
	var c ruleCondition
	c.bind(hit)
	for _, part := range expr.Parts(c.rule) {
		switch part.Decide(req, expr.Allow).Truth() {
		case expr.True:
		case expr.Unresolved:
			if itself || !isPossible(ctx, part, req) { // the namespace would have to be asked about
				return false
			}
		default:
			return false
		}
	}
	return true
}

// isPossible reports whether a condition depends on an object or its name, or holds. One that fails for another reason,
// such as its cost, gives nothing.
func isPossible(ctx context.Context, c expr.Condition, req *expr.Request) bool {
	cfg := expr.DataConfig{Operation: operationOf(req.Verb), OwnKind: true, Objects: unknownObjects{}}
	if connect.Of(req.APIGroup, req.Resource, req.Subresource) != connect.None {
		cfg.Target = expr.Reached{Err: expr.ErrNotKnown}
	}
	data := expr.NewData(cfg)
	holds, err := c.Evaluate(ctx, req, expr.Allow, data)
	if err == nil {
		return holds
	}
	failed, ok := errors.AsType[*expr.EvalError](err)
	// Neither true nor false is what asks for the name of the object. It may also ask for the caller, if a question
	// does not say all about them, and then nothing is promised.
	unnamed := ok && failed.Reason == expr.ReasonType && !req.Unidentified()
	return unnamed || data.NeededUnknown() || errors.Is(err, expr.ErrNotKnown)
}

// unknownObjects are those of a request that nobody makes yet.
type unknownObjects struct{}

func (unknownObjects) Object(string) (runtime.Object, error)    { return nil, expr.ErrNotKnown }
func (unknownObjects) OldObject(string) (runtime.Object, error) { return nil, expr.ErrNotKnown }

// operationOf is what conditions see as the operation.
func operationOf(verb string) string {
	switch {
	case verb == verbs.Create:
		return string(admission.Create)
	case verbs.Updates(verb):
		return string(admission.Update)
	case verbs.Deletes(verb):
		return string(admission.Delete)
	}
	return "GET"
}

// isItself tells actions on namespaces from those on what is in them.
func isItself(a ruleset.Action) bool {
	return a.Resource.Resource == "namespaces" && a.Resource.Group == "" && a.Sub == ""
}

// shows reports whether a namespace is shown: one that a rule names, and whose get nothing denies.
func (n *named) shows(ctx context.Context, namespace string) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if shown, ok := n.known[namespace]; ok {
		return shown
	}
	shown := n.has(ctx, namespace)
	if shown {
		ctx := requestctx.With(ctx, n.snap)
		known := n.gate.Chain.decide(ctx, oneNamespace(n.attrs, namespace), lists{})
		decision, _, err := known.Fold(ctx)
		shown = decision == authorizer.DecisionAllow || decision == authorizer.DecisionNoOpinion && err == nil && known.Denies == nil
	}
	if ctx.Err() == nil {
		n.known[namespace] = shown
	}
	return shown
}
