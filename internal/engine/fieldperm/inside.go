package fieldperm

import (
	"strconv"

	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// An atomic or schemaless value is one field, but an exclusive declaration may reach into it: otherwise such a value
// could be used to evade it. These functions look for exactly those places.

// exclusiveBelow reports whether an exclusive permission lies below the top frame.
func (w *walker) exclusiveBelow() bool {
	f := w.top()
	for _, n := range w.states[f.from:f.to] {
		if n.exclusive && n.leadsOn() {
			for _, child := range n.children() {
				if child.exclusive {
					return true
				}
			}
		}
	}
	return false
}

// inside charges the exclusive places inside a changed value and reports whether anything else in it has changed, too.
func (w *walker) inside(old, new value.Value) (rest bool) {
	switch {
	case (old == nil || old.IsNull()) && (new == nil || new.IsNull()):
		return true // there is no inside
	case bothMaps(old, new):
		before, after := w.asMap(old), w.asMap(new)
		defer w.free(before)
		defer w.free(after)
		if (before == nil || before.Empty()) && (after == nil || after.Empty()) {
			return true
		}
		value.MapZipUsing(w.alloc, before, after, value.Unordered, func(key string, l, r value.Value) bool {
			w.push(frame{name: key, kind: entryStep, loose: true, old: l, new: r, index: -1})
			rest = w.insideOf(l, r) || rest
			w.pop()
			return true
		})
		return rest
	case bothLists(old, new):
		return w.insideList(old, new)
	}
	w.everythingBelow()
	return true
}

// insideOf checks one entry and reports whether a change remains that counts for its parent.
func (w *walker) insideOf(l, r value.Value) (rest bool) {
	if l != nil && r != nil && value.EqualsUsing(w.alloc, l, r) {
		return false
	}
	if w.exclusiveBelow() && !w.inside(l, r) {
		return false
	}
	top := len(w.frames) - 1
	if c := w.classAt(top); c.exclusive && c != w.classAt(top-1) {
		w.charge()
		return false
	}
	return true
}

// insideList compares by position, since nothing identifies the elements; in a new or removed list, all elements have
// changed. If comparing by position cannot be right, everything that might be exclusive counts as changed.
func (w *walker) insideList(old, new value.Value) (rest bool) {
	before, after := w.asList(old), w.asList(new)
	defer w.free(before)
	defer w.free(after)
	named := false
	f := w.top()
	for _, n := range w.states[f.from:f.to] {
		named = named || n.keys != nil
	}
	n, m := length(before), length(after)
	if named || n != m && n != 0 && m != 0 {
		w.everythingBelow()
		return true
	}
	if n == 0 && m == 0 {
		return true
	}
	for i := range max(n, m) {
		f := frame{kind: itemStep, element: true, index: -1}
		if i < n {
			f.old = before.AtUsing(w.alloc, i)
		}
		if i < m {
			f.new, f.index = after.AtUsing(w.alloc, i), i
		}
		if f.name = keyText(f.item()); f.name == "" {
			f.name = strconv.Itoa(i)
		}
		w.push(f)
		rest = w.insideOf(f.old, f.new) || rest
		w.pop()
		w.free(f.old)
		w.free(f.new)
	}
	return rest
}

// everythingBelow charges every exclusive permission below the top frame, whatever its condition.
func (w *walker) everythingBelow() {
	f := w.top()
	for i := f.from; i < f.to; i++ {
		w.everything(w.states[i])
	}
}

func (w *walker) everything(n *node) {
	visit := func(f frame, child *node) {
		if !child.exclusive {
			return
		}
		f.opaque, f.index = true, -1
		w.pushNode(f, child)
		top := len(w.frames) - 1
		if c := w.classAt(top); c.exclusive && c != w.classAt(top-1) {
			w.charge()
		}
		w.everything(child)
		w.pop()
	}
	for name, child := range n.fields {
		visit(frame{name: name, kind: fieldStep}, child)
	}
	for name, child := range n.keys {
		visit(frame{name: name, kind: entryStep}, child)
	}
	if n.any != nil {
		visit(frame{kind: anyStep}, n.any)
	}
}
