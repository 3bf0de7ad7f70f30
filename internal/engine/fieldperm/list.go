package fieldperm

import (
	"bytes"
	"math"
	"strconv"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// list compares two sets or keyed lists, in which order does not matter. A list whose elements the schema does not
// identify is compared as a single value, which needs a more general permission, never a lesser one.
func (w *walker) list(tr schema.TypeRef, t *schema.List, old, new value.Value) {
	before, after := w.asList(old), w.asList(new)
	defer w.free(before)
	defer w.free(after)
	if length(before) == 0 && length(after) == 0 {
		if old != nil && new != nil && (!tr.Nullable || old.IsNull() == new.IsNull()) {
			return // null and empty, or both empty
		}
		w.leafValue(old, new)
		return
	}
	inStep, ok := w.inStep(t, before, after)
	switch {
	case !ok:
		w.leafValue(old, new)
	case inStep && len(t.Keys) == 0: // equal sets
	case inStep:
		for i := range after.Length() {
			w.elements(t, before, i, after, i)
		}
	default:
		w.shuffled(t, before, after)
	}
}

func (w *walker) asList(v value.Value) value.List {
	if v == nil || !v.IsList() {
		return nil
	}
	return v.AsListUsing(w.alloc)
}

func length(l value.List) int {
	if l == nil {
		return 0
	}
	return l.Length()
}

// inStep reports whether both lists have elements with the same keys in the same order, which is almost always the case
// and needs no memory. ok is false if an element has no key.
func (w *walker) inStep(t *schema.List, before, after value.List) (same, ok bool) {
	n, m := length(before), length(after)
	same = n == m
	for i := range max(n, m) {
		w.buf[0], w.buf[1] = w.buf[0][:0], w.buf[1][:0]
		okBefore, okAfter := true, true
		if i < n {
			w.buf[0], okBefore = w.appendKeyAt(w.buf[0], t, before, i)
		}
		if i < m {
			w.buf[1], okAfter = w.appendKeyAt(w.buf[1], t, after, i)
		}
		if !okBefore || !okAfter {
			return false, false
		}
		same = same && bytes.Equal(w.buf[0], w.buf[1])
	}
	return same, true
}

// shuffled pairs elements by key. The n-th element with a key is paired with the former n-th element with that key:
// keys are unique in what Kubernetes accepts, and where they are not every difference still counts.
func (w *walker) shuffled(t *schema.List, before, after value.List) {
	type occurrence struct {
		key string
		nth int
	}
	seen := make(map[string]int, length(before))
	former := make(map[occurrence]int, length(before))
	for i := range length(before) {
		key, _ := w.appendKeyAt(nil, t, before, i)
		former[occurrence{string(key), seen[string(key)]}] = i
		seen[string(key)]++
	}
	clear(seen)
	paired := make([]bool, length(before))
	for j := range length(after) {
		key, _ := w.appendKeyAt(nil, t, after, j)
		i, ok := former[occurrence{string(key), seen[string(key)]}]
		seen[string(key)]++
		if ok {
			paired[i] = true
		} else {
			i = -1
		}
		w.elements(t, before, i, after, j)
	}
	for i, ok := range paired {
		if !ok {
			w.elements(t, before, i, after, -1)
		}
	}
}

// elements compares an element with its former self; an index of -1 means there is none.
func (w *walker) elements(t *schema.List, before value.List, i int, after value.List, j int) {
	if w.err != nil || len(t.Keys) == 0 && i >= 0 && j >= 0 {
		return // a set's member is its own key
	}
	f := frame{kind: itemStep, element: true, index: j}
	if i >= 0 {
		f.old = before.AtUsing(w.alloc, i)
		defer w.alloc.Free(f.old)
	}
	if j >= 0 {
		f.new = after.AtUsing(w.alloc, j)
		defer w.alloc.Free(f.new)
	}
	if len(t.Keys) == 0 {
		f.name = keyText(f.item())
	} else {
		f.list = t
	}
	w.push(f)
	w.value(t.ElementType, f.old, f.new)
	w.pop()
}

// appendKeyAt appends the key of a list's element.
func (w *walker) appendKeyAt(b []byte, t *schema.List, l value.List, i int) ([]byte, bool) {
	item := l.AtUsing(w.alloc, i)
	defer w.alloc.Free(item)
	if len(t.Keys) == 0 {
		return appendScalar(b, item)
	}
	if !item.IsMap() {
		return b, false
	}
	m := item.AsMapUsing(w.alloc)
	defer w.alloc.Free(m)
	found := false
	for _, name := range t.Keys {
		v, ok := m.GetUsing(w.alloc, name)
		if !ok {
			def := w.keyDefault(t, name)
			if def == nil {
				b = append(b, '-', 0) // an element without the key differs from one with it
				continue
			}
			v = value.NewValueInterface(def)
		}
		b, ok = appendScalar(b, v)
		w.alloc.Free(v)
		if !ok {
			return b, false
		}
		found = true
	}
	return b, found
}

// keyDefault is the value that a missing key has by the schema, such as the protocol of a port.
func (w *walker) keyDefault(t *schema.List, name string) any {
	atom, ok := w.schema.Resolve(t.ElementType)
	if !ok || atom.Map == nil {
		return nil
	}
	field, _ := atom.Map.FindField(name)
	return field.Default
}

// appendScalar writes a scalar such that different ones have different text, and equal numbers the same text.
func appendScalar(b []byte, v value.Value) ([]byte, bool) {
	switch {
	case v.IsString():
		b = append(b, 's')
		b = strconv.AppendInt(b, int64(len(v.AsString())), 10)
		b = append(append(b, ':'), v.AsString()...)
	case v.IsInt():
		b = strconv.AppendInt(append(b, 'n'), v.AsInt(), 10)
	case v.IsFloat():
		if f := v.AsFloat(); f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			b = strconv.AppendInt(append(b, 'n'), int64(f), 10)
		} else {
			b = strconv.AppendFloat(append(b, 'n'), f, 'g', -1, 64)
		}
	case v.IsBool():
		b = strconv.AppendBool(append(b, 'b'), v.AsBool())
	default:
		return b, false
	}
	return append(b, 0), true
}
