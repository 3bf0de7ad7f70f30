package authorize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// A token limits what the other links allow. For a read, that is not a conditional deny, which would refuse the read: a
// get is decided on the state that is read, and a list or watch shows what all of them allow (TK-3).

// apart removes the answer of the token from what is known; the set is nil if the token leaves nothing open.
func (v Partial) apart() (Partial, *openSet) {
	if v.rest == nil || len(v.rest.walk.kept) == 0 {
		return v, nil
	}
	set := v.rest.walk.kept[0].set
	if set == nil || !set.limits {
		return v, nil
	}
	rest := *v.rest
	rest.walk.kept = rest.walk.kept[1:]
	v.rest, v.Pending = &rest, &rest
	return v, set
}

// within decides a read that the links behind the token allow, always or under conditions.
func (g *Gate) within(ctx context.Context, v Partial, limits *openSet, others Verdict, snap *snapshot.Snapshot, attrs authorizer.Attributes) Verdict {
	if others.Answer != Allowed && others.Answer != Open {
		return others
	}
	if !isList(attrs.GetVerb()) {
		return v.verdict(Open, "conditionally, by "+v.Authorizer, requestctx.Conditional(v.Pending))
	}
	if g.reading == nil {
		return v.folded(ctx, errSelect).verdict(Denied, errSelect.Error(), requestctx.Pass{})
	}
	if err := g.reading.Asks(attrs); err != nil {
		folded := v.folded(ctx, err)
		return folded.verdict(Denied, folded.Reason, requestctx.Pass{})
	}
	n := &requestctx.Narrowing{Box: selectors.Box{}}
	if seen := others.Pass.Narrowing(); seen != nil {
		copied := *seen
		n = &copied
	}
	n.Each, n.Basis = boundTo(n.Each, limits, snap.Served), nil
	n.Rules = slices.Clone(n.Rules)
	for _, c := range limits.denies {
		n.Rules = append(n.Rules, c.GetID())
	}
	slices.Sort(n.Rules)
	return v.verdict(Open, "conditionally, by "+v.Authorizer, requestctx.Narrowed(n))
}

// bounded shows, of the objects that the others show, those that every link of the token allows.
type bounded struct {
	others requestctx.Each // nil if they show everything
	links  []*linkCondition
	view   requestctx.View
	place  bool
}

var _ requestctx.Each = (*bounded)(nil)

// boundTo makes the storage ask the links about each object. If the rule cannot be evaluated on the version of the
// object, an allow rule allows nothing and a deny rule denies everything.
func boundTo(others requestctx.Each, limits *openSet, served *snapshot.Served) *bounded {
	b := &bounded{others: others, place: others != nil && others.LooksAtNamespace()}
	req := limits.request()
	h := newHash("token", req.APIGroup, req.APIVersion, req.Resource)
	if others != nil {
		view := others.View()
		h.add(string(view[:]))
	}
	looks := false
	for _, c := range limits.denies {
		l, ok := c.(*linkCondition)
		if !ok {
			continue
		}
		seen := *l
		unseen := func(c *ruleCondition) bool { return seenAsSelected(c, req, served) != nil }
		if slices.ContainsFunc(l.denies, unseen) {
			seen.allowed, seen.allows, seen.denies = false, nil, nil
		}
		seen.allows = slices.DeleteFunc(slices.Clone(seen.allows), unseen)
		b.links = append(b.links, &seen)
		h.add("link", strconv.FormatBool(seen.allowed))
		for _, list := range [][]*ruleCondition{seen.denies, seen.allows} {
			h.number(len(list))
			for _, c := range list {
				one := expr.LooksOf(c.rule)
				looks, b.place = looks || one.Request, b.place || one.Namespace
				h.add(identity(c, req, served))
			}
		}
	}
	if looks {
		h.request(req)
	}
	b.view = requestctx.View(h.Sum(nil))
	return b
}

// Shows implements requestctx.Each.
func (b *bounded) Shows(ctx context.Context, data authorizer.ConditionsData) (bool, error) {
	for _, l := range b.links {
		switch result := l.Evaluate(ctx, data); {
		case result.IsFalse(): // it is allowed
		case result.Error() != nil:
			return false, fmt.Errorf("link %d of the token: %w", l.number, result.Error())
		case result.IsTrue():
			return false, nil
		default:
			return false, errNotEvaluable
		}
	}
	if len(b.links) == 0 {
		return false, errors.New("the token has no links")
	}
	if b.others == nil {
		return true, nil
	}
	return b.others.Shows(ctx, data)
}

// At implements requestctx.Each: an object that the others do not show is not shown.
func (b *bounded) At(namespace, name string) (shown, known bool) {
	if b.others == nil {
		return false, false
	}
	shown, known = b.others.At(namespace, name)
	return false, known && !shown
}

// View implements requestctx.Each.
func (b *bounded) View() requestctx.View { return b.view }

// LooksAtNamespace implements requestctx.Each.
func (b *bounded) LooksAtNamespace() bool { return b.place }
