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

// named knows the namespaces that rules of the master namespace name by `request.namespace`: such a rule grants a right
// in some namespaces, as a binding in a namespace does, and so makes them visible (RD-12). A rule that applies to all
// namespaces alike does not. Nor does one that looks at the namespace's object, which is not available when a get is
// authorized.
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

// maxActions bounds how many actions are tried for a rule whose condition looks at the action. It covers every verb on
// every resource of a server with hundreds of resources.
const maxActions = 4096

// named returns nil if no such rule concerns the caller. Attrs are a list, watch or get of namespaces.
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
		// One action is enough for a rule that does not look at actions, unless its object is the namespace.
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
	// A deny of get removes namespaces again.
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

// has reports whether a rule grants the caller a right in a namespace, perhaps under a further condition on the object.
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

// isPossible reports whether a condition holds, or depends on an object or its name. One that fails for another reason,
// such as its cost, grants nothing.
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
	// A condition that asks for the name of the object is neither true nor false. It may also ask about the caller; if
	// the question does not fully identify them, nothing is promised.
	unnamed := ok && failed.Reason == expr.ReasonType && !req.Unidentified()
	return unnamed || data.NeededUnknown() || errors.Is(err, expr.ErrNotKnown)
}

// unknownObjects are the objects of a hypothetical request.
type unknownObjects struct{}

func (unknownObjects) Object(string) (runtime.Object, error)    { return nil, expr.ErrNotKnown }
func (unknownObjects) OldObject(string) (runtime.Object, error) { return nil, expr.ErrNotKnown }

// operationOf returns what conditions see as the operation.
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

// isItself reports whether an action is on namespaces, not on objects in them.
func isItself(a ruleset.Action) bool {
	return a.Resource.Resource == "namespaces" && a.Resource.Group == "" && a.Sub == ""
}

// shows reports whether a namespace is visible: a rule names it, and nothing denies its get.
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
