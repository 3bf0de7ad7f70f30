package ruleset

import (
	"cmp"
	"slices"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/ruleset/persist"
)

// subject is everything that is bound to one user or group. Fields that a decision reads first come first, and a single
// grant is stored in the struct itself: in the usual case that saves one memory access.
type subject struct {
	cluster    grants
	oneCluster [1]roleGrant
	key        Subject
	rest       *rest // nil for most
}

// rest is what is bound to a subject in scopes other than the whole cluster.
type rest struct {
	master    grants
	oneMaster [1]roleGrant
	local     persist.Map[string, *local] // by namespace
}

var nowhere persist.Map[string, *local]

// HasKey implements persist.Member.
func (s *subject) HasKey(key Subject) bool { return s.key == key }

// master returns what the subject has from the bindings of the master namespace.
func (s *subject) master() grants {
	if s.rest == nil {
		return nil
	}
	return s.rest.master
}

// local returns what the subject has in single namespaces.
func (s *subject) local() *persist.Map[string, *local] {
	if s.rest == nil {
		return &nowhere
	}
	return &s.rest.local
}

// local is what is bound to a subject in one namespace.
type local struct {
	policy, rbac grants
}

// grants are the roles that a subject has in one scope, by number.
type grants []roleGrant

// roleGrant is one role and the bindings that grant it; reasons name the first one.
type roleGrant struct {
	id       uint32
	bindings bindings
}

// bindings is one binding, or rarely several, sorted by name.
type bindings struct {
	first *binding
	more  *[]*binding
}

func (l bindings) each(visit func(*binding)) {
	if l.first == nil {
		return
	}
	visit(l.first)
	if l.more != nil {
		for _, b := range *l.more {
			visit(b)
		}
	}
}

// find returns the role's grant, or nil.
func (g grants) find(id uint32) *roleGrant {
	if len(g) <= matching.LinearMax {
		for i := range g {
			if g[i].id == id {
				return &g[i]
			}
		}
		return nil
	}
	i, found := slices.BinarySearchFunc(g, id, func(r roleGrant, id uint32) int { return cmp.Compare(r.id, id) })
	if !found {
		return nil
	}
	return &g[i]
}

// grantOp adds a binding to a subject or removes it.
type grantOp struct {
	scope scope
	b     *binding
	add   bool
}

// apply returns the grants after the operations, which are all of one scope. The receiver is not changed.
func (g grants) apply(ops []grantOp) grants {
	changed := map[uint32][]grantOp{}
	for _, op := range ops {
		changed[op.b.id] = append(changed[op.b.id], op)
	}
	var remove, add grants
	for id, ops := range changed {
		var old bindings
		if r := g.find(id); r != nil {
			remove, old = append(remove, *r), r.bindings
		}
		if list := old.apply(ops); list.first != nil {
			add = append(add, roleGrant{id, list})
		}
	}
	slices.SortFunc(remove, roleGrant.compare)
	slices.SortFunc(add, roleGrant.compare)
	return persist.Splice(g, remove, add, roleGrant.compare)
}

func (r roleGrant) compare(o roleGrant) int { return cmp.Compare(r.id, o.id) }

// apply returns the list with bindings added and removed.
func (l bindings) apply(ops []grantOp) (out bindings) {
	var old []*binding
	l.each(func(b *binding) { old = append(old, b) })
	add, remove := sortedOps(ops)
	next := persist.Splice(old, remove, add, (*binding).compare)
	if len(next) > 0 {
		out.first = next[0]
	}
	if len(next) > 1 {
		more := next[1:]
		out.more = &more
	}
	return out
}

// sortedOps returns what is added and what is removed, each in order.
func sortedOps(ops []grantOp) (add, remove []*binding) {
	for _, op := range ops {
		if op.add {
			add = append(add, op.b)
		} else {
			remove = append(remove, op.b)
		}
	}
	slices.SortFunc(add, (*binding).compare)
	slices.SortFunc(remove, (*binding).compare)
	return add, remove
}

func (b *binding) compare(o *binding) int { return b.ref.compare(o.ref) }

// apply returns a copy of the subject after the operations, or nil if nothing is left.
func (s *subject) apply(o *persist.Owner, hash func(string) uint64, ops []grantOp) *subject {
	next, other := *s, rest{}
	if s.rest != nil {
		other = *s.rest
	}
	byScope := map[scope][]grantOp{}
	for _, op := range ops {
		byScope[op.scope] = append(byScope[op.scope], op)
	}
	for sc, ops := range byScope {
		switch sc.kind {
		case ScopeMaster:
			other.master = other.master.apply(ops)
			continue
		case ScopeCluster:
			next.cluster = next.cluster.apply(ops)
			continue
		}
		h := hash(sc.ns)
		var l local
		if old, ok := other.local.Get(h, sc.ns); ok {
			l = *old
		}
		if sc.kind == ScopePolicy {
			l.policy = l.policy.apply(ops)
		} else {
			l.rbac = l.rbac.apply(ops)
		}
		if len(l.policy) == 0 && len(l.rbac) == 0 {
			other.local.Remove(o, h, sc.ns)
		} else {
			other.local.Set(o, h, sc.ns, &l)
		}
	}
	next.cluster = next.cluster.into(&next.oneCluster)
	next.rest = nil
	if len(other.master) > 0 || other.local.Len() > 0 {
		next.rest = &other
		next.rest.master = other.master.into(&next.rest.oneMaster)
	}
	if len(next.cluster) == 0 && next.rest == nil {
		return nil
	}
	return &next
}

// into moves a single grant into the inline slot.
func (g grants) into(one *[1]roleGrant) grants {
	if len(g) != 1 {
		one[0] = roleGrant{}
		return g
	}
	one[0] = g[0]
	return one[:]
}
