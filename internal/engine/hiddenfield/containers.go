package hiddenfield

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// inMap puts the field back into the entries of a map.
func (b *back) inMap(o, n, so, sn reflect.Value, at, from fieldperm.Path) (reflect.Value, error) {
	if n.Type().Key().Kind() != reflect.String {
		return n, nil
	}
	out := reflect.MakeMapWithSize(n.Type(), n.Len())
	for _, key := range n.MapKeys() {
		out.SetMapIndex(key, n.MapIndex(key))
	}
	for _, key := range append(o.MapKeys(), n.MapKeys()...) {
		if !at[0].Any && at[0].Name != key.String() {
			continue
		}
		step := append(fieldperm.Path{fieldperm.Key(key.String())}, at[1:]...)
		if !at[0].Bracket {
			step[0] = at[0]
		}
		child, err := b.child(entry(o, key), entry(n, key), entry(so, key), entry(sn, key), step, from)
		if err != nil {
			return n, err
		}
		if !isNothing(child) || n.MapIndex(key).IsValid() {
			out.SetMapIndex(key, child)
		}
	}
	return out, nil
}

// entry is the value of a key; the zero value if there is none.
func entry(m, key reflect.Value) reflect.Value {
	if v := m.MapIndex(key); v.IsValid() {
		return v
	}
	return reflect.Zero(m.Type().Elem())
}

// inRaw puts the field back into JSON that is stored verbatim.
func (b *back) inRaw(o, n reflect.Value, at, from fieldperm.Path) (reflect.Value, error) {
	raw := o.Interface().(runtime.RawExtension).Raw
	if len(raw) == 0 {
		return n, nil // there is nothing in it
	}
	stored, err := decode(raw)
	if err != nil {
		return n, &Removal{Hidden: b.hidden, At: from} // who knows what is in it
	}
	written, err := decode(n.Interface().(runtime.RawExtension).Raw)
	if err != nil {
		return n, &Removal{Hidden: b.hidden, At: from}
	}
	shown, seen := withoutAny(stored, at, b.hidden.Keys), withoutAny(written, at, b.hidden.Keys)
	made, err := b.within(reflect.ValueOf(stored), reflect.ValueOf(written), reflect.ValueOf(shown), reflect.ValueOf(seen), at, from)
	if err != nil {
		return n, err
	}
	if reflect.DeepEqual(made.Interface(), any(stored)) {
		return o, nil // as it is written
	}
	text, err := json.Marshal(made.Interface())
	if err != nil {
		return n, err
	}
	return reflect.ValueOf(runtime.RawExtension{Raw: text}), nil
}

// inList puts the field back into the elements of a list. A missing element was removed.
func (b *back) inList(o, n, so, sn reflect.Value, at, from fieldperm.Path) (reflect.Value, error) {
	if o.Len() == 0 && n.Len() == 0 || !at[0].Bracket || n.Type().Elem().Kind() == reflect.Uint8 || so.Len() != o.Len() || sn.Len() != n.Len() {
		return n, nil
	}
	step := append(fieldperm.Path{fieldperm.Any()}, at[1:]...)
	pairs := b.pair(so, sn, from)
	out := reflect.MakeSlice(n.Type(), n.Len(), n.Len())
	reflect.Copy(out, n)
	for i := range o.Len() {
		j, ok := pairs[i]
		if !ok {
			if mayHold(so.Index(i), at[1:]) {
				return n, &Removal{Hidden: b.hidden, At: append(from[:len(from):len(from)], fieldperm.Any())}
			}
			continue
		}
		child, err := b.child(o.Index(i), n.Index(j), so.Index(i), sn.Index(j), step, from)
		if err != nil {
			return n, err
		}
		out.Index(j).Set(child)
	}
	for j := range n.Len() {
		if !slices.Contains(values(pairs), j) && holds(n.Index(j), at[1:]) {
			b.set = true
		}
	}
	return out, nil
}

func values(pairs map[int]int) (all []int) {
	for _, j := range pairs {
		all = append(all, j)
	}
	return all
}

// pair matches the elements of the stored list with those of the written one: by key, where there is one, otherwise by
// what is shown of them, then by position.
func (b *back) pair(so, sn reflect.Value, list fieldperm.Path) map[int]int {
	pairs, taken := map[int]int{}, map[int]bool{}
	match := func(same func(i, j int) bool) {
		for i := range so.Len() {
			if _, done := pairs[i]; done {
				continue
			}
			for j := range sn.Len() {
				if !taken[j] && same(i, j) {
					pairs[i], taken[j] = j, true
					break
				}
			}
		}
	}
	if keys := b.keyed(list); len(keys) > 0 {
		match(func(i, j int) bool { return keyOf(so.Index(i), keys) == keyOf(sn.Index(j), keys) })
		return pairs
	}
	match(func(i, j int) bool { return reflect.DeepEqual(so.Index(i).Interface(), sn.Index(j).Interface()) })
	match(func(i, j int) bool { return i == j })
	return pairs
}

// keyOf returns the key of an element.
func keyOf(v reflect.Value, keys []string) string {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	var parts []string
	for _, name := range keys {
		var part reflect.Value
		switch v.Kind() {
		case reflect.Struct:
			if index, ok := fieldsOf(v.Type())[name]; ok {
				part = v.FieldByIndex(index)
			}
		case reflect.Map:
			part = v.MapIndex(reflect.ValueOf(name))
		}
		for part.IsValid() && (part.Kind() == reflect.Interface || part.Kind() == reflect.Pointer) && !part.IsNil() {
			part = part.Elem()
		}
		if !part.IsValid() {
			parts = append(parts, "-")
			continue
		}
		parts = append(parts, fmt.Sprintf("%q", fmt.Sprint(part.Interface())))
	}
	return strings.Join(parts, ",")
}
