package ruleset

import (
	"cmp"
	"slices"
)

// subject is everything that is bound to one user or group.
type subject struct {
	key             Subject
	master, cluster grants
	local           pmap[string, *local] // by namespace
}

// local is what is bound to a subject in one namespace.
type local struct {
	policy, rbac grants
}

// grants are the roles that a subject has in one scope, by number.
type grants []roleGrant

// roleGrant is one role and the bindings that give it, of which reasons name the first.
type roleGrant struct {
	id       uint32
	bindings []*binding
}

// find returns the role's grant, or nil.
func (g grants) find(id uint32) *roleGrant {
	if len(g) <= linearMax {
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

// grantOp adds a binding to a subject or takes it away.
type grantOp struct {
	scope scope
	b     *binding
	add   bool
}

// apply returns the grants with the operations, which are all of one scope, carried out. The receiver stays as it is.
func (g grants) apply(ops []grantOp) grants {
	changed := map[uint32][]grantOp{}
	for _, op := range ops {
		changed[op.b.id] = append(changed[op.b.id], op)
	}
	var fresh grants
	out := make(grants, 0, len(g)+len(changed))
	for id, ops := range changed {
		if g.find(id) == nil {
			if list := applyBindings(nil, ops); len(list) > 0 {
				fresh = append(fresh, roleGrant{id, list})
			}
		}
	}
	slices.SortFunc(fresh, func(a, b roleGrant) int { return cmp.Compare(a.id, b.id) })
	for _, r := range g {
		for len(fresh) > 0 && fresh[0].id < r.id {
			out, fresh = append(out, fresh[0]), fresh[1:]
		}
		if ops, ok := changed[r.id]; ok {
			r.bindings = applyBindings(r.bindings, ops)
		}
		if len(r.bindings) > 0 {
			out = append(out, r)
		}
	}
	out = append(out, fresh...)
	if len(out) == 0 {
		return nil
	}
	return slices.Clip(out)
}

// applyBindings returns the list with bindings added and removed, in the order of their names.
func applyBindings(list []*binding, ops []grantOp) []*binding {
	var add []*binding
	remove := map[*binding]bool{}
	for _, op := range ops {
		if op.add {
			add = append(add, op.b)
		} else {
			remove[op.b] = true
		}
	}
	slices.SortFunc(add, func(a, b *binding) int { return a.ref.compare(b.ref) })
	out := make([]*binding, 0, max(len(list)+len(add)-len(remove), 0))
	for _, b := range list {
		if remove[b] {
			continue
		}
		for len(add) > 0 && add[0].ref.compare(b.ref) < 0 {
			out, add = append(out, add[0]), add[1:]
		}
		out = append(out, b)
	}
	return append(out, add...)
}

// apply returns a copy of the subject with the operations carried out, or nil if nothing is left.
func (s *subject) apply(o *owner, hash func(string) uint64, ops []grantOp) *subject {
	next := *s
	byScope := map[scope][]grantOp{}
	for _, op := range ops {
		byScope[op.scope] = append(byScope[op.scope], op)
	}
	for sc, ops := range byScope {
		switch sc.kind {
		case scopeMaster:
			next.master = next.master.apply(ops)
			continue
		case scopeCluster:
			next.cluster = next.cluster.apply(ops)
			continue
		}
		h := hash(sc.ns)
		var l local
		if old, ok := next.local.get(h, sc.ns); ok {
			l = *old
		}
		if sc.kind == scopePolicy {
			l.policy = l.policy.apply(ops)
		} else {
			l.rbac = l.rbac.apply(ops)
		}
		if len(l.policy) == 0 && len(l.rbac) == 0 {
			next.local.remove(o, h, sc.ns)
		} else {
			next.local.set(o, h, sc.ns, &l)
		}
	}
	if len(next.master) == 0 && len(next.cluster) == 0 && next.local.len() == 0 {
		return nil
	}
	return &next
}
