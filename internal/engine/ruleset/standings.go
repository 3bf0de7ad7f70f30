package ruleset

import (
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// What follows tells subjects and namespaces apart by what is bound, for those who judge many of them at once.

// Subjects visits everybody to whom anything is bound, in no order.
func (ix *Index) Subjects(visit func(Subject)) {
	ix.subjects.Each(func(s *subject) bool {
		visit(s.key)
		return true
	})
}

// NamespacesOf are the namespaces in which something is bound to exactly this subject, in order.
func (ix *Index) NamespacesOf(s Subject) (namespaces []string) {
	if has, ok := ix.subjects.Get(ix.hashSubject(s), s); ok {
		has.local().Each(func(ns string, _ *local) bool {
			namespaces = append(namespaces, ns)
			return true
		})
		slices.Sort(namespaces)
	}
	return namespaces
}

// AppendEverywhere spells the roles that a subject has everywhere, so that no other roles are spelled the same.
func (ix *Index) AppendEverywhere(key []byte, s Subject) []byte {
	var has subject
	if found, ok := ix.subjects.Get(ix.hashSubject(s), s); ok {
		has = *found
	}
	return has.cluster.appendTo(has.master().appendTo(key))
}

// AppendIn spells the roles that a subject has in one namespace alone.
func (ix *Index) AppendIn(key []byte, s Subject, namespace string) []byte {
	var here local
	if has, ok := ix.subjects.Get(ix.hashSubject(s), s); ok {
		if found, ok := has.local().Get(ix.hash(namespace), namespace); ok {
			here = *found
		}
	}
	return here.rbac.appendTo(here.policy.appendTo(key))
}

// Concerns reports whether a rule that exactly this subject is bound to is about the request.
func (ix *Index) Concerns(a authorizer.Attributes, s Subject) bool {
	return ix.own(a, s, func(*role, *matching.Rule) bool { return true })
}

// Applies reports whether one rule is about the request of exactly this subject.
func (ix *Index) Applies(a authorizer.Attributes, s Subject, ref RoleRef, rule int) bool {
	return ix.own(a, s, func(r *role, ru *matching.Rule) bool { return r.Ref == ref && ru.Index == rule })
}

// own looks for a rule about a request among those that exactly this subject is bound to.
func (ix *Index) own(a authorizer.Attributes, s Subject, wanted func(*role, *matching.Rule) bool) (found bool) {
	var q Query
	q.ResetFor(ix, a, s)
	if q.found == 0 {
		return false
	}
	for _, tier := range []Tier{TierMaster, TierNamespace, TierRBAC} {
		for _, kind := range q.scopes(tier) {
			if kind == 0 {
				continue
			}
			for _, g := range q.grants(q.subjects[0], kind) {
				if r := ix.slots.Get(g.id); r != nil {
					see := func(ru *matching.Rule, _ matching.Fit, _ bool) { found = found || wanted(r, ru) }
					r.deny.Each(&q.req, see)
					r.allow.Each(&q.req, see)
				}
				if found {
					return true
				}
			}
		}
	}
	return false
}

// NamesFor adds the names of objects that rules about such a request tell apart, for any of these subjects, in any
// namespace.
func (ix *Index) NamesFor(names []string, a authorizer.AttributesRecord, subjects ...Subject) []string {
	for _, s := range subjects {
		has, ok := ix.subjects.Get(ix.hashSubject(s), s)
		if !ok {
			continue
		}
		seen := map[uint32]bool{}
		look := func(all grants) {
			for _, g := range all {
				if r := ix.slots.Get(g.id); r != nil && !seen[g.id] {
					seen[g.id] = true
					names = ix.namesIn(names, r, a)
				}
			}
		}
		look(has.cluster)
		look(has.master())
		has.local().Each(func(_ string, l *local) bool {
			look(l.policy)
			look(l.rbac)
			return true
		})
	}
	return names
}

func (ix *Index) namesIn(names []string, r *role, a authorizer.AttributesRecord) []string {
	for i, ru := range r.Rules {
		if ru == nil || len(ru.Names) == 0 {
			continue
		}
		var q Query
		a.Name = ru.Names[0]
		if q.setRequest(ix, a); q.fits(r, i) {
			names = append(names, ru.Names...)
		}
	}
	return names
}

// fits reports whether one rule of a role is about the request.
func (q *Query) fits(r *role, rule int) (fits bool) {
	see := func(ru *matching.Rule, _ matching.Fit, _ bool) { fits = fits || ru == r.Rules[rule] }
	if r.Rules[rule].Deny {
		r.deny.Each(&q.req, see)
	} else {
		r.allow.Each(&q.req, see)
	}
	return fits
}

// Members visits everybody to whom a role is bound, once per scope, with the namespace, or everywhere.
func (ix *Index) Members(ref RoleRef, visit func(namespace string, everywhere bool, s Subject)) {
	type member struct {
		scope
		Subject
	}
	seen := map[member]bool{}
	ix.boundTo(ref, func(sc scope, b *binding) {
		for _, s := range b.unique() {
			if m := (member{sc, s}); !seen[m] {
				seen[m] = true
				visit(sc.ns, sc.kind == ScopeMaster || sc.kind == ScopeCluster, s)
			}
		}
	})
}

// boundTo visits the bindings of a role, scope by scope.
func (ix *Index) boundTo(ref RoleRef, visit func(scope, *binding)) {
	id, ok := ix.ids.Get(ix.hashRole(ref), ref)
	if !ok || ix.slots.Refs(id) == 0 {
		return
	}
	ix.scopes.Each(func(sc scope, ids []uint32) bool {
		if _, found := slices.BinarySearch(ids, id); found {
			key := scopedRole{sc, id}
			list, _ := ix.bound.Get(ix.hashScoped(key), key)
			list.Each(func(b *binding) { visit(sc, b) })
		}
		return true
	})
}

// RulesAbout are the rules of a role, by position, that are about a request, wherever it is made and whatever the
// object is called.
func (ix *Index) RulesAbout(ref RoleRef, a authorizer.AttributesRecord) (rules []int) {
	r := ix.role(ref)
	if r == nil {
		return nil
	}
	for i, ru := range r.Rules {
		if ru == nil {
			continue
		}
		if a.Name = ""; len(ru.Names) > 0 {
			a.Name = ru.Names[0]
		}
		var q Query
		if q.setRequest(ix, a); q.fits(r, i) {
			rules = append(rules, i)
		}
	}
	return rules
}
