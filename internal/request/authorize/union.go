package authorize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// spread is what a caller who may not see all objects of a resource may see in single namespaces (RD-11): each part is
// what a list of that namespace would show them. It decides nothing by itself.
type spread struct {
	// parts are keyed by namespace; for namespaces themselves, by name. A part decides alone, so a namespace that
	// denies what is allowed elsewhere shows nothing.
	parts map[string]part
	// decided has the namespaces of the parts, and order those in which something may be seen, in storage order.
	decided, order []string
	// by names the links behind the parts.
	by []string
	// elsewhere decides about namespaces for which no binding of their own counts; nil if nothing may be seen there.
	elsewhere *elsewhere
	// named shows namespaces that rules for all namespaces name; nil if there are none.
	named *named
	// wide asks rules that hold in all namespaces; nil if there are none.
	wide *each
	// themselves is true if the objects are namespaces.
	themselves bool
	view       requestctx.View
}

// part is what may be seen in one namespace. The zero value shows nothing.
type part struct {
	all  bool
	each *each
}

var _ requestctx.Each = (*spread)(nil)

// ask asks the chain. A list or watch that it does not allow as a whole is also asked about by name, and in single
// namespaces; the union is nil if nothing can be seen there, or if the storage cannot ask about it.
func (g *Gate) ask(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) (Partial, *spread) {
	how := lists{unselected: g.unselected(attrs)}
	known := g.Chain.decide(ctx, attrs, how)
	if !g.unites(attrs) || !known.isUndecided(ctx) {
		return known, nil
	}
	how.byName = true
	known = g.Chain.decide(ctx, attrs, how)
	return known, g.spread(ctx, snap, attrs, known.Pending != nil)
}

// isUndecided reports whether nothing allows or denies the request without a condition.
func (v Partial) isUndecided(ctx context.Context) bool {
	decision, _, err := v.Fold(ctx)
	return decision == authorizer.DecisionNoOpinion && err == nil
}

// unites reports whether a list or watch may show what is allowed in single namespaces, or by name: only where the
// storage can ask about each object.
func (g *Gate) unites(attrs authorizer.Attributes) bool {
	return g.unions && isList(attrs.GetVerb()) && attrs.IsResourceRequest() && attrs.GetSubresource() == "" &&
		g.Unseen(attrs) == nil && g.reading.Asks(attrs) == nil
}

// isNamespaces reports whether a request is for namespaces.
func isNamespaces(attrs authorizer.Attributes) bool {
	return attrs.IsResourceRequest() && attrs.GetResource() == "namespaces" && attrs.GetAPIGroup() == "" && attrs.GetSubresource() == ""
}

// spread asks in which namespaces the caller may see something; nil if in none. Wide is true if rules for all
// namespaces show something; then namespaces that show less count, too.
func (g *Gate) spread(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes, wide bool) *spread {
	u := &spread{parts: map[string]part{}}
	var q ruleset.Query
	q.Reset(snap.Rules, attrs)
	q.ByName()
	granted := g.granted(ctx, snap, attrs)
	switch {
	case isNamespaces(attrs):
		u.themselves = true
		u.named = g.named(ctx, &q, snap, attrs)
		u.elsewhere = g.deniedPlaces(ctx, snap, attrs, wide)
		holds := g.holds(snap)
		for _, name := range withPlaces(q.Places(), granted) {
			held := slices.Contains(granted, name) || holds.In(&q, name)
			if !held && !wide && u.named == nil {
				continue
			}
			switch v := g.decide(ctx, oneNamespace(attrs, name), narrowTo); {
			case v.Answer == Denied:
				u.add(name, part{}, "")
			case held && v.Answer == Allowed: // what is allowed under a condition is checked for each object
				u.add(name, part{all: true}, linkPlaces)
			}
		}
	case attrs.GetNamespace() != "" || !snap.Served.Namespaced(schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}):
		return nil
	default:
		u.elsewhere = g.elsewhere(ctx, &q, snap, attrs, wide)
		for _, name := range withPlaces(q.Places(), granted) {
			if allows, denies := q.In(name); !allows && !slices.Contains(granted, name) && !(denies && (wide || u.elsewhere != nil)) {
				continue
			}
			found, by := g.partOf(ctx, attrs, name)
			u.add(name, found, by)
		}
	}
	if len(u.order) == 0 && u.elsewhere == nil && u.named == nil && (!wide || len(u.decided) == 0) {
		return nil
	}
	u.see(attrs, nil)
	return u
}

// withPlaces merges two lists of namespaces, in the order in which objects are stored.
func withPlaces(names, others []string) []string {
	if len(others) == 0 {
		return names
	}
	all := slices.Concat(names, others)
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(a+"/", b+"/") })
	return slices.Compact(all)
}

// partOf returns what a list or watch of one namespace shows.
func (g *Gate) partOf(ctx context.Context, attrs authorizer.Attributes, namespace string) (part, string) {
	v := g.decide(ctx, inPlace(attrs, namespace), askEach)
	switch {
	case v.Answer == Allowed:
		return part{all: true}, v.By
	case v.Answer == Open && v.Pass.Narrowing() != nil:
		if e, ok := v.Pass.Narrowing().Each.(*each); ok {
			return part{each: e}, v.By
		}
	}
	return part{}, ""
}

func (u *spread) add(name string, found part, by string) {
	u.parts[name], u.decided = found, append(u.decided, name)
	if !found.all && found.each == nil {
		return
	}
	u.order = append(u.order, name)
	if !slices.Contains(u.by, by) {
		u.by = append(u.by, by)
	}
}

// askEach has the rules checked for each object, whatever selectors could express.
func askEach(rules []*ruleCondition, req *expr.Request, served *snapshot.Served, asks bool) (*requestctx.Narrowing, error) {
	if !asks {
		return nil, errSelectorsOnly
	}
	seen := slices.DeleteFunc(slices.Clone(rules), func(c *ruleCondition) bool { return seenAsSelected(c, req, served) != nil })
	if len(seen) == 0 {
		return nil, fmt.Errorf("%w: no condition can be asked about objects of this version", errSelector)
	}
	n := &requestctx.Narrowing{Each: eachOf(seen, req, served)}
	for _, c := range seen {
		n.Rules = append(n.Rules, c.GetID())
	}
	slices.Sort(n.Rules)
	return n, nil
}

// joined narrows to what rules for all namespaces allow, and to the union.
func (u *spread) joined(by narrower) narrower {
	if u == nil {
		return by
	}
	return func(rules []*ruleCondition, req *expr.Request, served *snapshot.Served, asks bool) (*requestctx.Narrowing, error) {
		wide, err := askEach(rules, req, served, asks)
		if err != nil {
			return nil, err
		}
		e, ok := wide.Each.(*each)
		if !ok {
			return nil, errSelector
		}
		both := *u
		both.see(nil, e)
		n := both.narrowing()
		n.Rules = wide.Rules
		return n, nil
	}
}

// verdict is the verdict on a list or watch of which only the union is allowed.
func (u *spread) verdict(known Partial) Verdict {
	n := u.narrowing()
	v := known.verdict(Open, "narrowed to "+spell(n), requestctx.Narrowed(n))
	v.By = strings.Join(u.by, ",")
	return v
}

func (u *spread) narrowing() *requestctx.Narrowing {
	return &requestctx.Narrowing{Each: u, Union: &requestctx.Union{Namespaces: u.order, Elsewhere: u.wide != nil || u.reachesElsewhere(), Themselves: u.themselves}}
}

// see adds the rules for all namespaces to the union, and describes what it shows.
func (u *spread) see(attrs authorizer.Attributes, wide *each) {
	h := newHash("union", string(u.view[:]))
	if attrs != nil {
		h.add(attrs.GetAPIGroup(), attrs.GetAPIVersion(), attrs.GetResource())
	}
	if u.wide = wide; wide != nil {
		h.add(string(wide.view[:]))
	}
	if u.elsewhere != nil {
		h.add(string(u.elsewhere.view[:]))
	}
	if u.named != nil {
		h.add(string(u.named.view[:]))
	}
	for _, name := range u.decided {
		switch p := u.parts[name]; {
		case p.all:
			h.add(name, "all")
		case p.each != nil:
			h.add(name, "some", string(p.each.view[:]))
		default:
			h.add(name, "nothing")
		}
	}
	u.view = requestctx.View(h.Sum(nil))
}

// at returns the part for an object; not found if rules for all namespaces decide about it.
func (u *spread) at(namespace, name string) (p part, found bool) {
	if u.themselves {
		namespace = name
	}
	p, found = u.parts[namespace]
	return p, found
}

// reachesElsewhere reports whether something outside the parts may be seen that rules for all namespaces do not show.
func (u *spread) reachesElsewhere() bool {
	return u.named != nil || u.elsewhere != nil && !u.themselves
}

// everywhere returns the rules for all namespaces, if no deny depends on the namespace; nil if there are none.
func (u *spread) everywhere() *each {
	if u.elsewhere != nil && u.elsewhere.denies {
		return nil
	}
	return u.wide
}

// At implements requestctx.Each.
func (u *spread) At(namespace, name string) (shown, known bool) {
	p, found := u.at(namespace, name)
	switch {
	case p.all:
		return true, true
	case p.each != nil:
		return p.each.At(namespace, name)
	case found:
		return false, true
	case u.everywhere() != nil:
		shown, known = u.wide.At(namespace, name)
		return shown, shown || known && u.elsewhere == nil && u.named == nil
	}
	return false, u.elsewhere == nil && u.named == nil
}

// Shows implements requestctx.Each.
func (u *spread) Shows(ctx context.Context, data authorizer.ConditionsData) (bool, error) {
	object, err := meta.Accessor(data.GetObject())
	if err != nil {
		return false, err
	}
	p, found := u.at(object.GetNamespace(), object.GetName())
	asked := []*each{p.each}
	if !found {
		asked = append(asked, u.everywhere())
		if u.elsewhere != nil {
			p = u.elsewhere.at(ctx, cmp.Or(object.GetNamespace(), object.GetName()), u.wide)
			asked = append(asked, p.each)
		}
	}
	if p.all || !found && u.named.shows(ctx, object.GetName()) {
		return true, nil
	}
	var errs []error
	for _, e := range asked {
		if e == nil {
			continue
		}
		shown, err := e.Shows(ctx, data)
		if shown {
			return true, nil
		}
		errs = append(errs, err)
	}
	return false, errors.Join(errs...)
}

// View implements requestctx.Each.
func (u *spread) View() requestctx.View { return u.view }

// LooksAtNamespace implements requestctx.Each.
func (u *spread) LooksAtNamespace() bool {
	if u.wide != nil && u.wide.place || u.elsewhere != nil && u.elsewhere.place {
		return true
	}
	for _, p := range u.parts {
		if p.each != nil && p.each.place {
			return true
		}
	}
	return false
}

// has reports whether a tier of the index is in the chain.
func (c *Chain) has(tier ruleset.Tier) bool {
	return slices.ContainsFunc(c.Links(), func(l Link) bool {
		t, ok := l.Authorizer.(interface{ is(ruleset.Tier) bool })
		return ok && t.is(tier)
	})
}

// reasonPlace is why a namespace is shown, and linkPlaces is the link that shows some of them.
const (
	reasonPlace = "a right to something in the namespace"
	linkPlaces  = "namespaces"
)

// holds knows in which namespaces a caller has a right to anything (RD-12).
func (g *Gate) holds(snap *snapshot.Snapshot) *ruleset.Holds {
	return &ruleset.Holds{Policy: g.Chain.has(ruleset.TierNamespace), RBAC: g.Chain.has(ruleset.TierRBAC), Served: snap.Served}
}

// showsPlace reports whether a get of a namespace is allowed because the caller has a right to something in it, and
// nothing denies it (RD-12).
func (g *Gate) showsPlace(ctx context.Context, known Partial, snap *snapshot.Snapshot, attrs authorizer.Attributes) bool {
	if !g.unions || attrs.GetVerb() != verbs.Get || !isNamespaces(attrs) || attrs.GetName() == "" || known.Denies != nil || !known.isUndecided(ctx) {
		return false
	}
	var q ruleset.Query
	q.Reset(snap.Rules, attrs)
	return slices.Contains(g.granted(ctx, snap, attrs), attrs.GetName()) || g.holds(snap).In(&q, attrs.GetName()) || g.named(ctx, &q, snap, attrs).has(ctx, attrs.GetName())
}

// SpellUnion is a union, as people read it.
func SpellUnion(u *requestctx.Union) string {
	var text string
	switch n := len(u.Namespaces); {
	case n == 1:
		text = "1 namespace"
	case n > 0 || !u.Elsewhere:
		text = fmt.Sprintf("%d namespaces", n)
	default:
		return "the objects that are allowed by name or by condition"
	}
	if u.Elsewhere {
		text += ", and the objects elsewhere that are allowed by name or by condition"
	}
	return text
}

// United describes the parts of a list or watch that is not allowed as a whole but may be made nevertheless, or says
// why a namespace is shown; it is empty for other requests. Whole is true if all of the request is allowed. A question
// without a version is about the preferred one.
func (g *Gate) United(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) (text string, whole bool) {
	if !g.unions || !attrs.IsResourceRequest() {
		return "", false
	}
	if version := attrs.GetAPIVersion(); version == "" || version == "*" {
		r := recordOf(attrs)
		resource := schema.GroupResource{Group: r.APIGroup, Resource: r.Resource}
		r.APIVersion = snap.Served.PreferredVersion(schema.GroupKind{Group: r.APIGroup, Kind: snap.Served.OwnKind(resource)})
		attrs = r
	}
	if !g.unites(attrs) && !(attrs.GetVerb() == verbs.Get && isNamespaces(attrs)) {
		return "", false
	}
	v := g.Decide(requestctx.With(ctx, snap), attrs)
	if n := v.Pass.Narrowing(); v.Answer == Open && n != nil && n.Union != nil {
		return "narrowed to " + SpellUnion(n.Union), false
	}
	if v.Answer == Allowed && v.Reason == reasonPlace {
		return reasonPlace, true
	}
	return "", false
}

// Others returns the subjects that may be allowed a request although no rule that applies to it says so: in single
// namespaces, or by name. A subject can occur more than once.
func (g *Gate) Others(snap *snapshot.Snapshot, attrs authorizer.Attributes) (all []ruleset.Subject) {
	all = snap.Access.Subjects()
	visit := func(s ruleset.Subject) { all = append(all, s) }
	if g.unions && isNamespaces(attrs) && attrs.GetVerb() == verbs.Get && attrs.GetName() != "" {
		snap.Rules.BoundIn(attrs.GetName(), visit)
		snap.Rules.BoundEverywhere(visit)
		return all
	}
	if !g.unites(attrs) {
		return all
	}
	if isNamespaces(attrs) {
		snap.Rules.BoundIn("", visit)
		snap.Rules.BoundEverywhere(visit)
	}
	snap.Rules.Anyone(attrs, visit)
	return all
}

// inPlace returns a list or watch of one namespace.
func inPlace(attrs authorizer.Attributes, namespace string) authorizer.Attributes {
	r := recordOf(attrs)
	r.Namespace = namespace
	return r
}

// oneNamespace returns the get of a namespace.
func oneNamespace(attrs authorizer.Attributes, name string) authorizer.Attributes {
	r := recordOf(attrs)
	r.Verb, r.Namespace, r.Name = verbs.Get, name, name
	r.FieldSelectorRequirements, r.LabelSelectorRequirements = nil, nil
	return r
}

// recordOf copies a request, without its path.
func recordOf(attrs authorizer.Attributes) *authorizer.AttributesRecord {
	r := &authorizer.AttributesRecord{
		User: attrs.GetUser(), Verb: attrs.GetVerb(), Namespace: attrs.GetNamespace(), APIGroup: attrs.GetAPIGroup(), APIVersion: attrs.GetAPIVersion(),
		Resource: attrs.GetResource(), Subresource: attrs.GetSubresource(), Name: attrs.GetName(), ResourceRequest: attrs.IsResourceRequest(), Path: attrs.GetPath(),
	}
	r.FieldSelectorRequirements, r.FieldSelectorParsingErr = attrs.GetFieldSelector()
	r.LabelSelectorRequirements, r.LabelSelectorParsingErr = attrs.GetLabelSelector()
	return r
}
