package ruleset

import (
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/ruleset/persist"
)

// Everyone visits every subject that is bound to a rule that applies to the request, once per binding and rule, in any
// tier; the user of the request is ignored. It is the inverse of a decision, and walks only the roles that are bound in
// the scope of the request and listed for its resource.
func (ix *Index) Everyone(a authorizer.Attributes, visit func(Hit)) {
	var q Query
	q.setRequest(ix, a)
	for _, tier := range []Tier{TierMaster, TierNamespace, TierRBAC} {
		for _, kind := range q.scopes(tier) {
			if kind != 0 {
				q.everyoneIn(kind, visit)
			}
		}
	}
}

// Anyone visits every subject to whom a rule may allow the request in some namespace, or for some name, although the
// request has neither. A subject can be visited more than once.
func (ix *Index) Anyone(a authorizer.Attributes, visit func(Subject)) {
	var q Query
	q.setRequest(ix, a)
	q.ByName()
	found := func(h Hit) {
		if h.Effect() == Allows {
			visit(h.Subject())
		}
	}
	ix.scopes.Each(func(sc scope, _ []uint32) bool {
		q.req.Namespace, q.req.NamespaceHash = sc.ns, ix.hash(sc.ns)
		q.everyoneIn(sc.kind, found)
		return true
	})
}

// BoundIn visits every subject of the bindings of a namespace; of all namespaces, if it is empty. A subject can be
// visited more than once.
func (ix *Index) BoundIn(namespace string, visit func(Subject)) {
	ix.scopes.Each(func(sc scope, ids []uint32) bool {
		if sc.ns == "" || namespace != "" && sc.ns != namespace {
			return true
		}
		ix.subjectsOf(sc, ids, visit)
		return true
	})
}

// BoundEverywhere visits every subject of the bindings of the master namespace. A subject can be visited more than
// once.
func (ix *Index) BoundEverywhere(visit func(Subject)) {
	sc := scope{kind: ScopeMaster}
	ids, _ := ix.scopes.Get(ix.hashScope(sc), sc)
	ix.subjectsOf(sc, ids, visit)
}

func (ix *Index) subjectsOf(sc scope, ids []uint32, visit func(Subject)) {
	for _, id := range ids {
		key := scopedRole{sc, id}
		list, _ := ix.bound.Get(ix.hashScoped(key), key)
		list.Each(func(b *binding) {
			for _, s := range b.unique() {
				visit(s)
			}
		})
	}
}

func (q *Query) everyoneIn(kind Scope, visit func(Hit)) {
	sc := scope{kind: kind}
	if kind == ScopePolicy || kind == ScopeRBAC {
		if q.req.Namespace == "" {
			return
		}
		sc.ns = q.req.Namespace
	}
	boundHere, _ := q.ix.scopes.Get(q.ix.hashScope(sc), sc)
	var lists [homes]candidates
	total := 0
	if !q.req.Wild {
		for i, home := range q.homes(kind) {
			if home.kind != 0 {
				lists[i] = q.candidates(home.kind, home.ns)
				total += lists[i].len()
			}
		}
	}
	if q.req.Wild || q.req.ByName || len(boundHere) <= total {
		for _, id := range boundHere {
			q.everyoneOf(sc, id, visit)
		}
		return
	}
	ids := make([]uint32, 0, total)
	for i := range lists {
		lists[i].each(q.req.Bits(), func(id uint32) {
			if _, found := slices.BinarySearch(boundHere, id); found {
				ids = append(ids, id)
			}
		})
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		q.everyoneOf(sc, id, visit)
	}
}

// everyoneOf visits the subjects of one role in one scope.
func (q *Query) everyoneOf(sc scope, id uint32, visit func(Hit)) {
	r := q.ix.slots.Get(id)
	if r == nil {
		return
	}
	var bindings persist.Roster[*binding]
	each := func(ru *matching.Rule, v matching.Fit, byDelete bool) {
		if bindings.Empty() {
			key := scopedRole{sc, id}
			bindings, _ = q.ix.bound.Get(q.ix.hashScoped(key), key)
		}
		bindings.Each(func(b *binding) {
			for _, s := range b.unique() {
				visit(Hit{rule: ru, role: r, via: &via{b, s}, nameUnknown: v == matching.AppliesIfName, byDelete: byDelete})
			}
		})
	}
	r.deny.Each(&q.req, each)
	r.allow.Each(&q.req, each)
}

// Unresolved returns an error that lists the bindings that would apply in the namespace (or everywhere) but grant
// nothing because their role does not exist, or nil. If no role is missing, it costs nothing.
func (ix *Index) Unresolved(namespace string) error {
	if ix.missing == 0 {
		return nil
	}
	var seen []*binding
	for _, sc := range []scope{{kind: ScopeMaster}, {ScopePolicy, namespace}, {kind: ScopeCluster}, {ScopeRBAC, namespace}} {
		ids, _ := ix.scopes.Get(ix.hashScope(sc), sc)
		for _, id := range ids {
			if ix.slots.Get(id) == nil {
				key := scopedRole{sc, id}
				list, _ := ix.bound.Get(ix.hashScoped(key), key)
				list.Each(func(b *binding) { seen = append(seen, b) })
			}
		}
	}
	return missingErrors(seen)
}
