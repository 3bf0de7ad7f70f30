package ruleset

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// A user who is denied `delete` on an object must not cause its deletion indirectly, either (PO-20). Hardly any user is
// denied a delete, and checking that costs one look at the user's roles.

// DeniesDelete reports whether a deny rule of the master namespace or of the given one could stop the user from
// deleting something. It is a superset: it ignores conditions and cluster-wide grants.
func (ix *Index) DeniesDelete(u user.Info, namespace string) bool {
	var q Query
	q.asked(ix, u, namespace)
	for s, i := q.next(0); s != nil; s, i = q.next(i) {
		if ix.denyDelete(s.master()) || ix.denyDelete(q.grants(s, ScopePolicy)) {
			return true
		}
	}
	return false
}

// DeniesDeleteIn lists, in order, the namespaces whose own deny rules could stop the user from deleting something
// there.
func (ix *Index) DeniesDeleteIn(u user.Info) []string {
	var q Query
	q.asked(ix, u, "")
	var all []string
	for s, i := q.next(0); s != nil; s, i = q.next(i) {
		s.local().Each(func(namespace string, l *local) bool {
			if ix.denyDelete(l.policy) {
				all = append(all, namespace)
			}
			return true
		})
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// MayDeny finds a deny rule of Policy that applies to the request, with or without a condition.
func (ix *Index) MayDeny(a authorizer.Attributes) (Hit, bool) {
	var q Query
	q.Reset(ix, a)
	for _, tier := range []Tier{TierMaster, TierNamespace} {
		var m Match
		if m = q.PolicyMaster(); tier == TierNamespace {
			m = q.PolicyNamespace()
		}
		if m.Deny.Found() {
			return m.Deny, true
		}
		if m.ConditionalDeny {
			if hits := q.AppendConditional(nil, tier, Denies); len(hits) > 0 {
				return hits[0], true
			}
		}
	}
	return Hit{}, false
}

// asked prepares the query for the rights of the user in a namespace.
func (q *Query) asked(ix *Index, u user.Info, namespace string) {
	q.ix, q.req.Namespace = ix, namespace
	if namespace != "" {
		q.req.NamespaceHash = ix.hash(namespace)
	}
	q.setUser(u)
}

// DeniesIn lists, in order, the namespaces whose own rules deny the user something.
func (ix *Index) DeniesIn(u user.Info) []string {
	var q Query
	q.asked(ix, u, "")
	var all []string
	for s, i := q.next(0); s != nil; s, i = q.next(i) {
		s.local().Each(func(namespace string, l *local) bool {
			if slices.ContainsFunc(l.policy, func(g roleGrant) bool { r := ix.slots.Get(g.id); return r != nil && !r.deny.Empty() }) {
				all = append(all, namespace)
			}
			return true
		})
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (ix *Index) denyDelete(g grants) bool {
	const deletes = matching.BitDelete | matching.BitDeleteCollection
	covers := func(c matching.Cell) bool { return c.Rule.Verbs.Masks[matching.FamilyNone]&deletes != 0 }
	for i := range g {
		r := ix.slots.Get(g[i].id)
		if r != nil && !r.deny.Empty() && (slices.ContainsFunc(r.deny.Cells, covers) || slices.ContainsFunc(r.deny.Wild, covers)) {
			return true
		}
	}
	return false
}

// UnservedDeny finds a rule that could stop the user from deleting, in the namespace, objects of a kind that is not
// known to be served: it cannot be known whether any exist.
func (ix *Index) UnservedDeny(u user.Info, namespace string) (Hit, bool) {
	var q Query
	q.asked(ix, u, namespace)
	for s, i := q.next(0); s != nil; s, i = q.next(i) {
		for _, g := range []grants{s.master(), q.grants(s, ScopePolicy)} {
			for j := range g {
				r := ix.slots.Get(g[j].id)
				if r == nil || r.deny.Empty() {
					continue
				}
				for _, ru := range r.Rules {
					if ru != nil && ru.Deny && ru.Verbs.Masks[matching.FamilyNone]&(matching.BitDelete|matching.BitDeleteCollection) != 0 && ix.namesUnserved(r, ru) {
						return Hit{rule: ru, role: r, grant: &g[j], who: s}, true
					}
				}
			}
		}
	}
	return Hit{}, false
}

func (ix *Index) namesUnserved(r *role, ru *matching.Rule) bool {
	for _, entry := range r.Policy[ru.Index].ResourceKinds {
		if p, err := matching.ParseKind(entry); strings.HasPrefix(entry, "-") || err == nil && (p.AnyRes || p.Mode != matching.SubNone) {
			continue
		}
		if len(ix.kinds.Resolve(entry)) == 0 {
			return true
		}
	}
	return false
}

// Names reports whether a rule that allows the request, without a condition, names its verb. RBAC's * allows every verb
// but names none: a user who holds it that way was not given this verb on purpose.
func (ix *Index) Names(a authorizer.Attributes, tiers ...Tier) bool {
	var q Query
	q.Reset(ix, a)
	for _, tier := range tiers {
		for _, h := range q.AppendAll(nil, tier, Allows) {
			if h.rule.Cond == nil && h.rule.Verbs.Name(&q.req) {
				return true
			}
		}
	}
	return false
}
