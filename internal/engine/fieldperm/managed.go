package fieldperm

import (
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// managed charges a field whose managers change but not its value.
func (w *walker) managed(tr schema.TypeRef, path fieldpath.Path) {
	depth := len(w.frames)
	at := []schema.TypeRef{tr}
	for _, e := range path {
		tr = w.follow(tr, e)
		at = append(at, tr)
	}
	// The key of a list's element says only that the element exists.
	if n := len(path); n > 1 && path[n-1].FieldName != nil && isKeyOf(path[n-2], *path[n-1].FieldName) {
		w.pop()
		path, at = path[:n-1], at[:n]
	}
	if w.counts(at[len(at)-1], path) {
		if w.exclusiveBelow() {
			w.everythingBelow()
		}
		w.charge()
	}
	for len(w.frames) > depth {
		w.pop()
	}
}

func isKeyOf(e fieldpath.PathElement, field string) bool {
	return e.Key != nil && slices.ContainsFunc(*e.Key, func(f value.Field) bool { return f.Name == field })
}

// counts reports whether the managed field at the top frame is to be charged: its value has not changed, and it is not
// just the parent of fields that have their own managers.
func (w *walker) counts(tr schema.TypeRef, path fieldpath.Path) bool {
	f := w.top()
	if len(w.frames) > 1 && w.identity() {
		return false
	}
	switch {
	case f.old == nil && f.new == nil:
		return true
	case f.old == nil || f.new == nil || !value.Equals(f.old, f.new):
		return false
	}
	atom, ok := w.schema.Resolve(tr)
	if !ok || isSchemaless(tr, atom) {
		return true
	}
	switch {
	case atom.Map != nil && atom.Map.ElementRelationship != schema.Atomic && f.new.IsMap():
		holds := false
		f.new.AsMap().Iterate(func(key string, _ value.Value) bool {
			holds = holds || len(path) == 0 || !isKeyOf(path[len(path)-1], key)
			return !holds
		})
		return !holds
	case atom.List != nil && atom.List.ElementRelationship == schema.Associative && f.new.IsList():
		return f.new.AsList().Length() == 0
	}
	return true
}

// identity reports whether the top frame is a field that never counts.
func (w *walker) identity() bool {
	switch {
	case len(w.frames) == 2:
		return w.frames[1].name == "apiVersion" || w.frames[1].name == "kind"
	case w.frames[1].name == "metadata":
		return identity[w.frames[2].name]
	}
	return false
}

// claimScale charges the scale field of a Scale.
func (w *walker) claimScale() {
	w.push(frame{name: "spec", kind: fieldStep, index: -1})
	w.push(frame{name: "replicas", kind: fieldStep, index: -1, opaque: true})
	w.charge()
	w.pop()
	w.pop()
}

// follow enters the target of a path element of managedFields, and returns its type.
func (w *walker) follow(tr schema.TypeRef, e fieldpath.PathElement) schema.TypeRef {
	f := frame{index: -1}
	top := w.top()
	atom, known := w.schema.Resolve(tr)
	if e.FieldName != nil {
		f.name, f.kind, f.loose = *e.FieldName, entryStep, true
		f.old, _ = get(top.old, f.name)
		f.new, _ = get(top.new, f.name)
		below := untyped()
		if known && atom.Map != nil && !isSchemaless(tr, atom) {
			below, f.loose = atom.Map.ElementType, len(atom.Map.Fields) > 0
			if field, ok := atom.Map.FindField(f.name); ok {
				below, f.kind = field.Type, fieldStep
			}
		}
		if len(w.frames) == 1 && f.name == "metadata" {
			below = w.metadataType(below)
		}
		w.push(f)
		return below
	}
	f.kind, f.element = itemStep, true
	f.old, f.new = itemOf(top.old, e), itemOf(top.new, e)
	f.name = elementName(atom.List, e)
	w.push(f)
	if known && atom.List != nil && !isSchemaless(tr, atom) {
		return atom.List.ElementType
	}
	return untyped()
}

func untyped() schema.TypeRef {
	name := deducedType
	return schema.TypeRef{NamedType: &name}
}

// itemOf finds the element of a list; nil if it does not exist.
func itemOf(v value.Value, e fieldpath.PathElement) value.Value {
	if v == nil || !v.IsList() {
		return nil
	}
	list := v.AsList()
	for i := range list.Length() {
		item := list.At(i)
		switch {
		case e.Index != nil && *e.Index == i, e.Value != nil && value.Equals(*e.Value, item), e.Key != nil && hasKey(item, *e.Key):
			return item
		}
	}
	return nil
}

func hasKey(item value.Value, key value.FieldList) bool {
	for _, k := range key {
		if v, ok := get(item, k.Name); !ok || !value.Equals(v, k.Value) {
			return false
		}
	}
	return len(key) > 0
}

// elementName returns the name that itemName gives the element.
func elementName(list *schema.List, e fieldpath.PathElement) string {
	switch {
	case e.Index != nil:
		return strconv.Itoa(*e.Index)
	case e.Value != nil:
		return keyText(*e.Value)
	case e.Key == nil:
		return ""
	case len(*e.Key) == 1:
		return keyText((*e.Key)[0].Value)
	}
	key := slices.Clone(*e.Key)
	if list != nil {
		slices.SortStableFunc(key, func(a, b value.Field) int { return slices.Index(list.Keys, a.Name) - slices.Index(list.Keys, b.Name) })
	}
	parts := make([]string, len(key))
	for i, k := range key {
		parts[i] = k.Name + "=" + keyText(k.Value)
	}
	return strings.Join(parts, ",")
}
