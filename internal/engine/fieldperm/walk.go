package fieldperm

import (
	"context"
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// walker compares two objects in one pass: by their schema, which compares sets, maps and keyed lists as such, and
// along the tree of permissions, which puts each changed field into its class where it is found.
type walker struct {
	ctx    context.Context // may be nil
	schema *schema.Schema
	alloc  value.Allocator
	frames []frame
	states []*node
	// standIn replaces the type of the objects.
	standIn *schema.TypeRef
	// general limits the walk to what may be exclusive.
	general bool
	// create makes stored values unknown to parameters and conditions.
	create bool
	// keepLeaves records every changed field, for defaulting.
	keepLeaves bool
	// keepPaths records the path of every changed field.
	keepPaths bool
	paths     []Path
	// uncovered is the class of fields that no permission covers; classes holds all others by key.
	uncovered *class
	classes   map[string]*class
	// changed lists the classes that have a changed field.
	changed []*class
	buf     [2][]byte
	err     error
}

// run compares old, which may be nil, with new.
func (w *walker) run(tree *node, old, new *typed.TypedValue, reset *fieldpath.Set) error {
	tr, err := w.begin(tree, old, new, reset)
	if err != nil {
		return err
	}
	w.value(tr, w.frames[0].old, w.frames[0].new)
	return w.err
}

// begin starts at the root of both objects and returns their type.
func (w *walker) begin(tree *node, old, new *typed.TypedValue, reset *fieldpath.Set) (schema.TypeRef, error) {
	tr := new.TypeRef()
	w.schema = new.Schema()
	if w.standIn != nil {
		w.schema, tr = &schema.Schema{}, *w.standIn
	}
	var before value.Value
	if old != nil {
		before = old.AsValue()
		if !old.AsValue().IsMap() {
			return tr, fmt.Errorf("stored object is not an object")
		}
	}
	after := new.AsValue()
	if after == nil || !after.IsMap() {
		return tr, fmt.Errorf("object is not an object")
	}
	w.alloc = value.NewFreelistAllocator()
	w.classes = map[string]*class{}
	w.uncovered = &class{needs: []need{{}}}
	w.frames = append(make([]frame, 0, 16), frame{old: before, new: after, reset: reset, to: 1})
	w.states = append(make([]*node, 0, 16), tree)
	atom, ok := w.schema.Resolve(tr)
	if !ok {
		return tr, fmt.Errorf("schema has no type for the object")
	}
	if isSchemaless(tr, atom) {
		w.schema, tr = schemalessObject()
	}
	return tr, nil
}

// skips reports whether the top frame can be skipped.
func (w *walker) skips() bool {
	f := w.top()
	if !w.general || f.guarded {
		return false
	}
	for _, n := range w.states[f.from:f.to] {
		if n.exclusive {
			return false
		}
	}
	return true
}

// value compares the values at the top frame.
func (w *walker) value(tr schema.TypeRef, old, new value.Value) {
	if w.err != nil || w.skips() {
		return
	}
	atom, ok := w.schema.Resolve(tr)
	if !ok {
		w.err = fmt.Errorf("schema has no type for %s", w.path())
		return
	}
	switch {
	case isSchemaless(tr, atom):
		w.leafValue(old, new)
	case atom.Map != nil && atom.Map.ElementRelationship != schema.Atomic && bothMaps(old, new):
		w.object(tr, atom.Map, old, new)
	case atom.List != nil && atom.List.ElementRelationship == schema.Associative && bothLists(old, new):
		w.list(tr, atom.List, old, new)
	default:
		w.leafValue(old, new)
	}
}

// bothMaps reports whether one value is a map and the other is a map, null or missing.
func bothMaps(old, new value.Value) bool {
	fits := func(v value.Value) bool { return v == nil || v.IsMap() || v.IsNull() }
	return fits(old) && fits(new) && (old != nil && old.IsMap() || new != nil && new.IsMap())
}

func bothLists(old, new value.Value) bool {
	fits := func(v value.Value) bool { return v == nil || v.IsList() || v.IsNull() }
	return fits(old) && fits(new) && (old != nil && old.IsList() || new != nil && new.IsList())
}

// leafValue compares what counts as a single value, because of the schema or the lack of one.
func (w *walker) leafValue(old, new value.Value) {
	if old != nil && new != nil && value.EqualsUsing(w.alloc, old, new) {
		return
	}
	if w.exclusiveBelow() && !w.inside(old, new) {
		return
	}
	w.charge()
}

// charge puts the field at the top frame into its class.
func (w *walker) charge() {
	c := w.classAt(len(w.frames) - 1)
	if w.general && !c.exclusive {
		return
	}
	switch {
	case c.first == nil:
		w.changed = append(w.changed, c)
		c.first = w.path()
	case w.comesBefore(c.first):
		c.first = w.path()
	}
	c.blind = c.blind || w.top().opaque
	if w.keepPaths {
		w.paths = append(w.paths, w.path())
	}
	if w.keepLeaves {
		c.leaves = append(c.leaves, w.leaf())
	}
}

// object compares two objects or maps entry by entry.
func (w *walker) object(tr schema.TypeRef, t *schema.Map, old, new value.Value) {
	before, after := w.asMap(old), w.asMap(new)
	if (before == nil || before.Empty()) && (after == nil || after.Empty()) {
		// Null and empty are the same to a map that Kubernetes stores, but not to an object with fields, where {} may
		// mean something, and not where the schema allows null.
		if old != nil && new != nil && (len(t.Fields) == 0 && !tr.Nullable || old.IsNull() == new.IsNull()) {
			return
		}
		if len(w.frames) == 2 && w.frames[1].name == "metadata" {
			return // every object has metadata, and this one is empty
		}
		w.leafValue(old, new)
		return
	}
	depth := len(w.frames)
	reset := w.top().reset
	value.MapZipUsing(w.alloc, before, after, value.Unordered, func(key string, l, r value.Value) bool {
		f := frame{name: key, kind: entryStep, loose: len(t.Fields) > 0, old: l, new: r, index: -1}
		ftr := t.ElementType
		if field, ok := t.FindField(key); ok {
			ftr, f.kind = field.Type, fieldStep
		}
		if depth <= 2 && w.neverCounts(key) {
			return true
		}
		if reset != nil {
			pe := fieldpath.PathElement{FieldName: &key}
			if reset.Members.Has(pe) {
				return true
			}
			f.reset, _ = reset.Children.Get(pe)
		}
		w.push(f)
		if depth == 1 && key == "metadata" {
			ftr = w.metadataType(ftr)
		}
		w.value(ftr, l, r)
		w.pop()
		return w.err == nil
	})
	w.free(before)
	w.free(after)
}

// neverCounts reports whether a field of the object or of its metadata is one that never counts (FP-7).
func (w *walker) neverCounts(key string) bool {
	if len(w.frames) == 1 {
		return key == "apiVersion" || key == "kind"
	}
	return w.frames[1].name == "metadata" && w.frames[1].kind != itemStep && (identity[key] || w.create && key == generateName)
}

func (w *walker) asMap(v value.Value) value.Map {
	if v == nil || !v.IsMap() {
		return nil
	}
	return v.AsMapUsing(w.alloc)
}

func (w *walker) free(v any) {
	if v != nil {
		w.alloc.Free(v)
	}
}
