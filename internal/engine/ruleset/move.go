package ruleset

import (
	"cmp"
	"slices"

	"proviso.dev/proviso/internal/engine/ruleset/persist"
)

// applyBindings moves the bindings that changed from subject to subject.
func (e *edit) applyBindings() {
	refs := make([]BindingRef, 0, len(e.bindings))
	for ref := range e.bindings {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, BindingRef.compare)
	bySubject := map[Subject][]grantOp{}
	byRole := map[scopedRole][]grantOp{}
	move := func(b *binding, add bool) {
		sc := b.scope(e.next.master)
		op := grantOp{scope: sc, b: b, add: add}
		for _, s := range b.unique() {
			bySubject[s] = append(bySubject[s], op)
		}
		key := scopedRole{sc, b.id}
		byRole[key] = append(byRole[key], op)
		delta := int32(1)
		if !add {
			delta = -1
		}
		e.next.slots.Refer(e.owner, b.id, delta)
		e.touched[b.id] = true
	}
	for _, ref := range refs {
		next := e.bindings[ref]
		h := e.next.hashBinding(ref)
		old, had := e.base.bindings.Get(h, ref)
		if had && next != nil && old.equal(next) || !had && next == nil {
			continue
		}
		if had {
			move(old, false)
		}
		if next == nil {
			e.next.bindings.Remove(e.owner, h, ref)
			continue
		}
		next.id = e.id(*next.named)
		next.named = e.next.slots.Key(next.id)
		move(next, true)
		e.next.bindings.Put(e.owner, h, ref, next)
	}
	e.moveSubjects(bySubject)
	e.moveScopes(byRole)
}

// moveSubjects updates the grants of every affected subject.
func (e *edit) moveSubjects(ops map[Subject][]grantOp) {
	for key, ops := range ops {
		h := e.next.hashSubject(key)
		old, ok := e.next.subjects.Get(h, key)
		if !ok {
			old = &subject{key: key}
		}
		if next := old.apply(e.owner, e.next.hash, ops); next != nil {
			e.next.subjects.Put(e.owner, h, key, next)
		} else {
			e.next.subjects.Remove(e.owner, h, key)
		}
	}
}

// moveScopes updates the lists of who is bound to what in a scope, and of the roles that are bound there.
func (e *edit) moveScopes(ops map[scopedRole][]grantOp) {
	type diff struct{ came, went []uint32 }
	diffs := map[scope]*diff{}
	at := func(sc scope) *diff {
		if diffs[sc] == nil {
			diffs[sc] = &diff{}
		}
		return diffs[sc]
	}
	for key, ops := range ops {
		h := e.next.hashScoped(key)
		old, had := e.next.bound.Get(h, key)
		add, remove := sortedOps(ops)
		list := old.Apply(remove, add, (*binding).compare)
		switch {
		case !list.Empty():
			e.next.bound.Set(e.owner, h, key, list)
			if !had {
				at(key.scope).came = append(at(key.scope).came, key.id)
			}
		case had:
			e.next.bound.Remove(e.owner, h, key)
			at(key.scope).went = append(at(key.scope).went, key.id)
		}
	}
	for sc, d := range diffs {
		h := e.next.hashScope(sc)
		old, _ := e.next.scopes.Get(h, sc)
		slices.Sort(d.came)
		slices.Sort(d.went)
		if next := persist.Splice(old, d.went, d.came, cmp.Compare[uint32]); len(next) > 0 {
			e.next.scopes.Set(e.owner, h, sc, next)
		} else {
			e.next.scopes.Remove(e.owner, h, sc)
		}
	}
}
