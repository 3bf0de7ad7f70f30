package authorize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/request/requestctx"
)

// Link is one authorizer of the chain.
type Link struct {
	// Name appears in reviews, reasons, audit annotations and metrics.
	Name       string
	Authorizer authorizer.Authorizer
	// Type is the type of a configured authorizer, as the configuration spells it; empty for what cannot be configured.
	Type string
	// FailOpen turns the failure of a Deny condition into NoOpinion instead of Deny. Only webhooks that are configured
	// to fail open set it.
	FailOpen bool
}

// The types of configured authorizers that are treated differently. Their names are free text and decide nothing.
const (
	TypeWebhook = "Webhook"
	TypeNode    = "Node"
)

// isOurs reports whether the link is the one of this name that the server creates itself. A configured link can have
// any name.
func (l Link) isOurs(name string) bool { return l.Type == "" && l.Name == name }

// GrantsAreKnown reports whether a link without rules grants nothing, or nothing that has to be looked up.
func (l Link) GrantsAreKnown() bool {
	return l.Type == TypeNode || l.Type == "" && links.WithoutRules(l.Name)
}

// Chain asks its links in order. It is lazy: the walk stops at the first answer that can become Allow. The rest of it
// happens in admission, if the links so far turn out to have no opinion. It gives exactly the decision that asking
// every link with all the data would have given.
type Chain struct {
	links atomic.Pointer[[]Link]
	scope Scope // nil if a right counts in the namespace in which it is held
}

// Scope knows the requests in a namespace for which the right must be held cluster-wide.
type Scope interface {
	ClusterWide(authorizer.Attributes) bool
}

// NewChain returns a chain of the given links in which a right counts in the namespace in which it is held.
func NewChain(links ...Link) (*Chain, error) { return NewScopedChain(nil, links...) }

// NewScopedChain returns a chain of the given links.
func NewScopedChain(scope Scope, links ...Link) (*Chain, error) {
	c := &Chain{scope: scope}
	return c, c.Replace(links...)
}

// With returns a chain of other links with the same scope.
func (c *Chain) With(links ...Link) (*Chain, error) { return NewScopedChain(c.scope, links...) }

// Replace swaps the links when the configuration is reloaded. Requests in flight finish with the links they began with.
// Every link must have a unique name, since decisions are traced by name; on error nothing changes.
func (c *Chain) Replace(links ...Link) error {
	if len(links) == 0 {
		return errors.New("authorizer chain: at least one authorizer is needed")
	}
	seen := map[string]bool{}
	for _, l := range links {
		if l.Name == "" || l.Authorizer == nil {
			return errors.New("authorizer chain: every link needs a name and an authorizer")
		}
		if seen[l.Name] {
			return fmt.Errorf("authorizer chain: %q is listed twice", l.Name)
		}
		seen[l.Name] = true
	}
	c.links.Store(&links)
	return nil
}

// Links returns the links, for reviews and tests.
func (c *Chain) Links() []Link { return *c.links.Load() }

// Relinked returns the chain with other authorizers in place of its own: same names, same order.
func (c *Chain) Relinked(as func(at int, link Link) authorizer.Authorizer) *Chain {
	links := slices.Clone(c.Links())
	for i := range links {
		links[i].Authorizer = as(i, links[i])
	}
	other := &Chain{scope: c.scope}
	other.links.Store(&links)
	return other
}

// Partial is what the chain knows before it has seen the object. It is not a decision on the request yet: Gate.Decide
// turns it into one. The zero value refuses.
type Partial struct {
	// Decision is final unless Pending is set.
	Decision authorizer.Decision
	Reason   string
	// Err is why links could not answer. Failed holds the errors of conditions that need no object: they failed closed,
	// which belongs in audit and metrics, but it is not an error of the server.
	Err    error
	Failed error
	// Authorizer names the link that decided, or the link that allows unless a condition in Pending prevents it.
	Authorizer string
	// Waits names the links whose conditions Pending is about, for people; set with it.
	Waits string
	// Types are the types of the conditions in Pending so far, as in requestctx.Outcome.
	Types string
	// Pending is what remains to be decided; set only if the request can still become allowed.
	Pending requestctx.Pending
	// Denies is set, without Pending, if nothing allows the request and conditions could still deny it. It resolves to
	// Deny or NoOpinion.
	Denies requestctx.Pending

	// rest is the walk to resume for Pending or Denies.
	rest *pending
}

// Decide walks the chain as far as the request's own data reaches.
func (c *Chain) Decide(ctx context.Context, attrs authorizer.Attributes) Partial {
	return c.decide(ctx, attrs, lists{})
}

// decide is Decide with a choice of how a list or watch is asked about.
func (c *Chain) decide(ctx context.Context, attrs authorizer.Attributes, how lists) Partial {
	var r record
	w := c.Walk(attrs)
	w.how = how
	for a := range w.answers(ctx) {
		link, d := a.link, &a.decision
		switch {
		case a.isOpen(): // it is kept
		case d.IsNoOpinion():
			r.note(link.Name, d.Reason(), d.Error())
			continue
		case d.IsDeny():
			// The conditional answers before this one could only have denied too.
			v := Partial{Decision: authorizer.DecisionDeny, Reason: d.Reason(), Authorizer: link.Name}
			if v.Err = d.Error(); FailedClosed(v.Err) {
				v.Failed, v.Err = v.Err, nil
			}
			return v
		case d.IsAllow() && len(w.kept) == 0:
			return Partial{Decision: authorizer.DecisionAllow, Reason: d.Reason(), Err: d.Error(), Authorizer: link.Name}
		}
		w.keep(a)
		if a.canBecome(authorizer.DecisionAllow) {
			p := a.waiting(pending{walk: w, record: r.kept()})
			return Partial{Decision: authorizer.DecisionNoOpinion, Authorizer: link.Name, Waits: deciders(w.kept), Types: typesOf(w.kept), Pending: p, rest: p}
		}
		// Only denies are possible here: a later link must allow.
	}
	v := Partial{Decision: authorizer.DecisionNoOpinion, Reason: r.reason(), Err: utilerrors.NewAggregate(r.errs), Failed: utilerrors.NewAggregate(r.failures)}
	if len(w.kept) > 0 {
		r.failures = nil // the verdict has them
		v.rest = &pending{walk: w, record: r.kept()}
		v.Denies = v.rest
	}
	return v
}

// outcome is the decision as it stands, without what is pending.
func (v Partial) outcome() requestctx.Outcome {
	return requestctx.Outcome{Decision: v.Decision, Reason: v.Reason, Detail: v.Err, Authorizer: v.Authorizer}
}

// Fold returns the decision where no condition will be evaluated. It continues the walk and does not ask a link again
// that has answered without a condition.
func (v Partial) Fold(ctx context.Context) (authorizer.Decision, string, error) {
	decision, reason, _, err := v.fold(ctx)
	return decision, reason, err
}

// fold also names the link that decided.
func (v Partial) fold(ctx context.Context) (_ authorizer.Decision, reason, by string, _ error) {
	if v.rest == nil {
		return v.Decision, v.Reason, v.Authorizer, v.Err
	}
	return v.rest.walk.fold(ctx, v.rest.record.copy())
}

// selected is the partial decision if the list will not be narrowed: then selectors that imply a condition count.
func (v Partial) selected() Partial {
	if v.rest != nil && v.rest.walk.how != (lists{}) {
		rest := *v.rest
		rest.walk.how = lists{}
		v.rest = &rest
	}
	return v
}

// Scoped returns the request as the links see it: without its namespace if the right to it must be held cluster-wide.
func (c *Chain) Scoped(attrs authorizer.Attributes) authorizer.Attributes {
	if c.scope != nil && c.scope.ClusterWide(attrs) {
		return clusterWide{attrs}
	}
	return attrs
}

type clusterWide struct{ authorizer.Attributes }

func (clusterWide) GetNamespace() string { return "" }

func (a *answer) canBecome(decision authorizer.Decision) bool {
	if a.set != nil {
		return a.set.canBecome(decision)
	}
	return canBecome(a.decision, decision)
}

// canBecome reports whether a decision is possible, without building upstream's set of all possible ones.
func canBecome(d authorizer.ConditionsAwareDecision, decision authorizer.Decision) bool {
	if !d.IsConditionsMap() {
		return d.PossibleDecisions().Has(decision)
	}
	m := d.ConditionsMap()
	switch decision {
	case authorizer.DecisionAllow:
		for range m.AllowConditions() {
			return true
		}
	case authorizer.DecisionDeny:
		for range m.DenyConditions() {
			return true
		}
	}
	return decision == authorizer.DecisionNoOpinion
}

// pending is a walk that waits for the object. It uses the snapshot pinned in the request's State, so a policy change
// in the meantime does not change the outcome.
type pending struct {
	walk Walk
	// record is nil if no link had anything to say.
	record *record
}

// waiting finds memory for a walk that waits for the object.
func (a *answer) waiting(p pending) *pending {
	var place *pending
	if a.set != nil {
		place = &a.set.waits
	} else {
		place = new(pending)
	}
	*place = p
	return place
}

// Resolve evaluates what was conditional, in order, and then asks the links that were not asked yet.
func (p *pending) Resolve(ctx context.Context, data authorizer.ConditionsData) requestctx.Outcome {
	if f, ok := data.(Facts); ok {
		if err := f.Trusted(); err != nil {
			return requestctx.Outcome{Decision: authorizer.DecisionDeny, Reason: err.Error()}
		}
	}
	w, r := p.walk, p.record.copy()
	w.how = lists{} // with the object at hand, nothing is narrowed
	var conditions []string
	var types typeSet
	for a := range w.answers(ctx) {
		link := a.link
		decision, reason, err := a.evaluate(ctx, data)
		conditions = a.appendIDs(conditions)
		types.add(a.set, &a.decision)
		if decision != authorizer.DecisionNoOpinion {
			return requestctx.Outcome{Decision: decision, Reason: reason, Detail: withFailures(err, data), Authorizer: link.Name, Conditions: conditions, Types: types.String()}
		}
		r.note(link.Name, reason, err)
	}
	return requestctx.Outcome{
		Decision:   authorizer.DecisionNoOpinion,
		Reason:     r.reason(),
		Detail:     withFailures(r.all(), data),
		Authorizer: names(w.kept),
		Conditions: conditions,
		Types:      types.String(),
	}
}

// deciders names the links whose conditions determine whether the last link decides: that link, or, if it allows
// without a condition, the denies before it.
func deciders(all []kept) string {
	last := all[len(all)-1]
	if a := last.answer(); a.isOpen() {
		return last.link.Name
	}
	return names(all[:len(all)-1])
}

// names lists the links that the conditions belong to.
func names(all []kept) string {
	list := make([]string, len(all))
	for i, a := range all {
		list[i] = a.link.Name
	}
	return strings.Join(list, ",")
}

// evaluate gives the final decision of one link. Results that the decision could not have produced fail closed.
func evaluate(ctx context.Context, link Link, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return (&answer{link: &link, decision: d}).evaluate(ctx, data)
}

func (a *answer) evaluate(ctx context.Context, data authorizer.ConditionsData) (decision authorizer.Decision, reason string, err error) {
	switch {
	case a.set != nil:
		decision, reason, err = a.set.evaluate(ctx, data)
	case a.decision.IsUnconditional():
		return Parts(a.decision)
	default:
		decision, reason, err = a.link.Authorizer.EvaluateConditions(ctx, a.decision, data)
	}
	if !a.canBecome(decision) {
		return a.upstream().FailureDecision(), "failed closed", fmt.Errorf("%s evaluated its conditions to %s, which they cannot give", a.link.Name, decision)
	}
	if decision == authorizer.DecisionDeny && err != nil && a.link.FailOpen {
		return authorizer.DecisionNoOpinion, reason, err
	}
	return decision, reason, err
}

// appendIDs appends the IDs of the conditions.
func (a *answer) appendIDs(ids []string) []string {
	if a.set == nil {
		return append(ids, conditionIDs(a.decision)...)
	}
	if c := a.set.only(); c != nil && ids == nil && !c.hit.ByDelete() {
		return c.compiled.IDs()
	}
	ids = slices.Grow(ids, len(a.set.denies)+len(a.set.allows))
	for _, list := range [...][]authorizer.Condition{a.set.denies, a.set.allows} {
		for _, c := range list {
			ids = append(ids, c.GetID())
		}
	}
	return ids
}

func conditionIDs(d authorizer.ConditionsAwareDecision) []string {
	var ids []string
	switch {
	case d.IsConditionsMap():
		m := d.ConditionsMap()
		for c := range m.DenyConditions() {
			ids = append(ids, c.GetID())
		}
		for c := range m.NoOpinionConditions() {
			ids = append(ids, c.GetID())
		}
		for c := range m.AllowConditions() {
			ids = append(ids, c.GetID())
		}
	case d.IsUnion():
		for _, sub := range d.UnionedDecisions() {
			ids = append(ids, conditionIDs(sub)...)
		}
	}
	return ids
}

var _ authorizer.RuleResolver = (*Chain)(nil)

// RulesFor joins the rules of the links that can list them (SelfSubjectRulesReview).
func (c *Chain) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var resources []authorizer.ResourceRuleInfo
	var paths []authorizer.NonResourceRuleInfo
	var errs []error
	incomplete := false
	for _, l := range c.Links() {
		resolver, ok := l.Authorizer.(authorizer.RuleResolver)
		if !ok {
			continue
		}
		r, p, partial, err := resolver.RulesFor(ctx, u, namespace)
		resources, paths = append(resources, r...), append(paths, p...)
		incomplete = incomplete || partial
		if err != nil {
			errs = append(errs, err)
		}
	}
	return resources, paths, incomplete, utilerrors.NewAggregate(errs)
}
