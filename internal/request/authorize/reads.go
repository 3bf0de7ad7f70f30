package authorize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// AnnotationNarrowed holds, in the audit event, the selectors that a list or watch was narrowed to.
const AnnotationNarrowed = "authorization.proviso.dev/narrowed"

// Reads lets reads pass on a condition (RD-1, RD-4): a get is decided on the state that is read, and a list or watch
// gets selectors.
type Reads interface {
	// Reaches returns an error if no store would decide a read of this resource: it is served elsewhere, or not from
	// the generic store.
	Reaches(authorizer.Attributes) error
	// Asks returns an error if the storage cannot ask about each object of a list or watch of this resource: then it is
	// narrowed by selectors, or refused.
	Asks(authorizer.Attributes) error
}

// ReadsFunc is a function that implements Reaches. It narrows by selectors only.
type ReadsFunc func(authorizer.Attributes) error

// Asks implements Reads.
func (ReadsFunc) Asks(authorizer.Attributes) error { return errSelectorsOnly }

// Reaches implements Reads.
func (f ReadsFunc) Reaches(attrs authorizer.Attributes) error { return f(attrs) }

// IsRead reports whether a request reads objects. Connections do not count, whichever HTTP method they use (RD-5).
func IsRead(attrs authorizer.Attributes) bool {
	return verbs.IsRead(attrs.GetVerb()) && attrs.IsResourceRequest() && !isConnect(attrs)
}

// isList reports whether the verb reads many objects.
func isList(verb string) bool { return verb == verbs.List || verb == verbs.Watch }

// reads reports whether a condition on a read is honoured. Without Reads it is not.
func (g *Gate) reads(attrs authorizer.Attributes, off error) error {
	if g.reading == nil {
		return off
	}
	if isList(attrs.GetVerb()) && attrs.GetSubresource() != "" {
		return errNoObject
	}
	return g.reading.Reaches(attrs)
}

// unselected reports whether conditions of a list stay open although the caller's selectors imply them (CA-16): the
// list is narrowed, and its pages must not reveal what they leave out (RD-6).
func (g *Gate) unselected(attrs authorizer.Attributes) bool {
	return g.reading != nil && g.conditional && isList(attrs.GetVerb()) && hasSelectors(attrs) && g.Honours(attrs) == nil
}

// errProbes stops selectors that would reveal the content of objects that the caller may not see.
var errProbes = errors.New("a conditional permission to delete a collection cannot be used with these selectors, which would tell what other objects contain: select what the condition is about")

// probes returns an error if the outcome of a conditional deletecollection would reveal whether objects that the caller
// may not see match its selectors: the request is refused if one does. Selectors that imply the condition do not match
// such objects, names reveal nothing about the content (RD-5), and a caller who may list everything knows it anyway.
func (g *Gate) probes(ctx context.Context, known Partial, snap *snapshot.Snapshot, attrs authorizer.Attributes) error {
	if attrs.GetVerb() != verbs.DeleteCollection || !selectsContent(attrs) {
		return nil
	}
	if n, err := known.narrow(ctx, snap.Served, narrowTo, false); err == nil && n.IsEverything() {
		return nil
	}
	if g.Decide(ctx, WithVerb(attrs, verbs.List)).Answer == Allowed {
		return nil
	}
	return errProbes
}

// selectsContent reports whether a request selects objects by more than their names, or by a selector that cannot be
// read.
func selectsContent(attrs authorizer.Attributes) bool {
	fs, unreadableFields := attrs.GetFieldSelector()
	ls, unreadableLabels := attrs.GetLabelSelector()
	return unreadableFields != nil || unreadableLabels != nil || len(ls) > 0 || slices.ContainsFunc(fs, func(f fields.Requirement) bool { return f.Field != "metadata.name" && f.Field != "metadata.namespace" })
}

func hasSelectors(attrs authorizer.Attributes) bool {
	fs, _ := attrs.GetFieldSelector()
	ls, _ := attrs.GetLabelSelector()
	return len(fs) > 0 || len(ls) > 0
}

// NarrowFor returns what a list or watch would be narrowed to under a snapshot; nil if it is allowed without a
// condition. It fails if the list is not allowed, or cannot be narrowed.
func (g *Gate) NarrowFor(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) (*requestctx.Narrowing, error) {
	return g.Decide(requestctx.With(ctx, snap), attrs).narrowed()
}

// NarrowAgain is a cheap NarrowFor for callers that know what the same list was narrowed to before. It determines
// whether the list is still allowed and, if the selectors would be computed from the same basis as before, what it is
// narrowed to. Otherwise it determines nothing, and the caller has to use NarrowFor.
func (g *Gate) NarrowAgain(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes, before *requestctx.Narrowing) (n *requestctx.Narrowing, settled bool, _ error) {
	v := g.decide(requestctx.With(ctx, snap), attrs, func(rules []*ruleCondition, req *expr.Request, served *snapshot.Served, asks bool) (*requestctx.Narrowing, error) {
		if before == nil || before.Basis == nil || !before.Basis.Equal(basisOf(rules, req, served, asks)) {
			return nil, errOutdated
		}
		return before, nil
	})
	if errors.Is(v.unselectable, errOutdated) {
		return nil, false, nil
	}
	n, err := v.narrowed()
	return n, true, err
}

// narrowed returns the part of a verdict that is about selectors.
func (v Verdict) narrowed() (*requestctx.Narrowing, error) {
	switch n := v.Pass.Narrowing(); {
	case v.Answer == Allowed:
		return nil, nil
	case v.Answer == Open && n != nil:
		return n, nil
	case v.unselectable != nil:
		return nil, v.unselectable
	}
	return nil, errors.Join(fmt.Errorf("not allowed: %s", v.Reason), v.Err)
}

// Narrowed describes, for people, what a list or watch under a condition is narrowed to under a snapshot, or why it is
// refused (RD-8). It is empty for other requests.
func (g *Gate) Narrowed(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) string {
	if g.reading == nil || !isList(attrs.GetVerb()) {
		return ""
	}
	v := g.Decide(requestctx.With(ctx, snap), attrs)
	n, err := v.narrowed()
	if err != nil && v.unselectable == nil {
		err = g.Unseen(attrs)
	}
	switch {
	case n != nil:
		return spell(n)
	case err != nil:
		return err.Error()
	}
	return "" // it is allowed as a whole, or not at all
}

// SayNarrowed adds the result of Narrowed to the reason of an answer.
func SayNarrowed(reason, narrowed string) string {
	if !strings.HasPrefix(narrowed, errSelector.Error()) {
		narrowed = "narrowed to " + narrowed
	}
	return strings.TrimPrefix(reason+"; "+narrowed, "; ")
}

// spell describes what a list is narrowed to, for people.
func spell(n *requestctx.Narrowing) string {
	switch {
	case n.Union != nil:
		return SpellUnion(n.Union)
	case n.Box.IsNothing():
		return "nothing: no object can meet the condition"
	case n.Each == nil:
		return n.Box.String()
	case n.Box.IsEverything():
		return "the objects that meet the condition"
	}
	return n.Box.String() + " and the objects that meet the condition"
}

// isUnreadable reports whether the error is the caller's mistake, rather than a condition that selectors cannot
// express.
func isUnreadable(err error) bool { return errors.Is(err, errUnreadable) }

var (
	errSelector = errors.New("the list cannot be narrowed")
	errForeign  = fmt.Errorf("%w: an authorizer gave a condition that is not a rule of a policy", errSelector)
	errDenies   = fmt.Errorf("%w: it may be denied under a condition", errSelector)
	// errSelectorsOnly is why single objects cannot be asked about.
	errSelectorsOnly = fmt.Errorf("%w: only selectors narrow here", errSelector)
	// errUnreadable is a mistake of the caller, and answered as such.
	errUnreadable = fmt.Errorf("%w: its selector cannot be read", errSelector)
)

// narrower turns rules that allow a list under conditions into selectors and, if single objects can be asked about,
// into a question about each of them.
type narrower func(rules []*ruleCondition, req *expr.Request, served *snapshot.Served, asks bool) (*requestctx.Narrowing, error)

// narrow turns the conditions of the whole chain into selectors: what any link would allow.
func (v Partial) narrow(ctx context.Context, served *snapshot.Served, by narrower, asks bool) (*requestctx.Narrowing, error) {
	if v.rest == nil {
		return nil, errForeign
	}
	w := v.rest.walk
	if _, err := w.attrs.GetFieldSelector(); err != nil {
		return nil, fmt.Errorf("%w: field selector: %w", errUnreadable, err)
	}
	if _, err := w.attrs.GetLabelSelector(); err != nil {
		return nil, fmt.Errorf("%w: label selector: %w", errUnreadable, err)
	}
	var rules []*ruleCondition
	for _, d := range w.Answers(ctx) {
		if d.IsNoOpinion() {
			continue
		}
		if d.IsDeny() {
			break
		}
		found, err := rulesOf(d)
		if err != nil {
			return nil, err
		}
		rules = append(rules, found...)
	}
	return by(rules, expr.NewRequestAt(w.attrs, requestctx.InstantOf(ctx)), served, asks)
}

// rulesOf returns the rules whose conditions allow.
func rulesOf(d authorizer.ConditionsAwareDecision) ([]*ruleCondition, error) {
	var all []*ruleCondition
	switch {
	case d.IsUnion():
		for _, sub := range d.UnionedDecisions() {
			found, err := rulesOf(sub)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	case d.IsConditionsMap():
		m := d.ConditionsMap()
		for range m.DenyConditions() {
			return nil, errDenies
		}
		for range m.NoOpinionConditions() {
			return nil, errDenies
		}
		for c := range m.AllowConditions() {
			if v, ok := c.(*vetted); ok {
				c = v.Condition
			}
			rule, ok := c.(*ruleCondition)
			if !ok {
				return nil, errForeign
			}
			all = append(all, rule)
		}
	default:
		return nil, errForeign
	}
	return all, nil
}

// narrowTo joins what the rules allow. What selectors cannot express together is checked for each object.
func narrowTo(rules []*ruleCondition, req *expr.Request, served *snapshot.Served, asks bool) (*requestctx.Narrowing, error) {
	n := &requestctx.Narrowing{Basis: basisOf(rules, req, served, asks)}
	var boxes, hulls []selectors.Box
	var failures []error
	var seen []*ruleCondition
	for _, c := range rules {
		if err := seenAsSelected(c, req, served); err != nil {
			failures = append(failures, fmt.Errorf("condition %q: %w", c.GetID(), err))
			continue // nor does it show a single object, in this version
		}
		seen = append(seen, c)
		box, err := boxOf(c, req, served, asks)
		switch {
		case err != nil:
			failures = append(failures, fmt.Errorf("condition %q: %w", c.GetID(), err))
			if asks {
				hulls = append(hulls, expr.Hull(c.rule, req, selectable(served, req)))
			}
			continue
		case box.IsEverything():
			// The caller's selectors imply this rule: nothing is added.
			return &requestctx.Narrowing{Rules: []string{c.GetID()}, Basis: n.Basis}, nil
		}
		boxes, hulls = append(boxes, box), append(hulls, box)
	}
	for _, c := range seen {
		n.Rules = append(n.Rules, c.GetID())
	}
	slices.Sort(n.Rules)
	union, err := selectors.Union(boxes...)
	switch {
	case len(failures) == 0 && err == nil:
		n.Box = union
		return n, nil
	case asks && len(seen) > 0:
		// Selectors still express what they can; that may be nothing at all.
		if hull, err := selectors.Union(hulls...); err == nil {
			n.Box = hull
		}
		n.Each = eachOf(seen, req, served)
		if slices.ContainsFunc(seen, func(c *ruleCondition) bool { return c.hit.Names() != nil }) {
			n.Union = &requestctx.Union{Elsewhere: true}
		}
		return n, nil
	case len(failures) == 0:
		return nil, fmt.Errorf("%w: %w", errSelector, err)
	}
	err = errors.Join(failures...)
	if len(boxes) > 0 {
		err = fmt.Errorf("%w; %w", err, &selectors.TooWide{Parts: boxes})
	}
	return nil, fmt.Errorf("%w: %s", errSelector, strings.ReplaceAll(err.Error(), "\n", "; "))
}

// boxOf returns what one rule allows. If objects can be asked about, those whose field is empty need not be left out.
func boxOf(c *ruleCondition, req *expr.Request, served *snapshot.Served, asks bool) (selectors.Box, error) {
	if asks {
		return expr.Exactly(c.rule, req, selectable(served, req))
	}
	return expr.Narrow(c.rule, req, selectable(served, req))
}
