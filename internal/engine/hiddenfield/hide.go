package hiddenfield

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// without returns a copy of a value without what is at a path below it. Only values on the path are copied. A container
// on the path that becomes empty is left out, too: its presence would reveal that it hides something.
func without(v reflect.Value, at fieldperm.Path, keys bool) reflect.Value {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		return rewrap(v, without(v.Elem(), at, keys))
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		out := reflect.New(v.Type().Elem())
		out.Elem().Set(without(v.Elem(), at, keys))
		return out
	case reflect.Struct:
		return structWithout(v, at, keys)
	case reflect.Map:
		return mapWithout(v, at, keys)
	case reflect.Slice:
		return listWithout(v, at, keys)
	}
	return v
}

// rewrap puts a value into an interface again.
func rewrap(as, v reflect.Value) reflect.Value {
	out := reflect.New(as.Type()).Elem()
	out.Set(v)
	return out
}

var rawExtension = reflect.TypeFor[runtime.RawExtension]()

func structWithout(v reflect.Value, at fieldperm.Path, keys bool) reflect.Value {
	if v.Type() == rawExtension {
		return reflect.ValueOf(rawWithout(v.Interface().(runtime.RawExtension), at, keys))
	}
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	hideIn(out, at, keys)
	return out
}

// hideIn removes what is at a path from a struct in place. What the struct points to is not changed.
func hideIn(v reflect.Value, at fieldperm.Path, keys bool) {
	index, ok := fieldsOf(v.Type())[at[0].Name]
	if !ok || at[0].Any {
		return
	}
	child := v.FieldByIndex(index)
	child.Set(reduced(child, at, keys))
}

// reduced returns a child without what is hidden in it; the child itself is hidden if the path ends there.
func reduced(child reflect.Value, at fieldperm.Path, keys bool) reflect.Value {
	if len(at) == 1 {
		return blank(child, keys)
	}
	left := without(child, at[1:], keys)
	if isBare(left) {
		return reflect.Zero(child.Type())
	}
	return left
}

func mapWithout(v reflect.Value, at fieldperm.Path, keys bool) reflect.Value {
	if v.IsNil() || v.Type().Key().Kind() != reflect.String {
		return v
	}
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for entries := v.MapRange(); entries.Next(); {
		key, value := entries.Key(), entries.Value()
		switch {
		case !at[0].Any && at[0].Name != key.String():
			out.SetMapIndex(key, value)
		case len(at) == 1 && keys && at[0].Bracket:
			out.SetMapIndex(key, emptied(value)) // one key of a map
		default:
			if left := reduced(value, at, keys); !isNothing(left) {
				out.SetMapIndex(key, left)
			}
		}
	}
	return out
}

// listWithout hides in every element: only a schema knows which of them a key names.
func listWithout(v reflect.Value, at fieldperm.Path, keys bool) reflect.Value {
	if v.IsNil() || !at[0].Bracket || v.Type().Elem().Kind() == reflect.Uint8 {
		return v
	}
	if len(at) == 1 {
		return reflect.Zero(v.Type())
	}
	out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	for i := range v.Len() {
		out.Index(i).Set(without(v.Index(i), at[1:], keys))
	}
	return out
}

// blank returns what is shown of a hidden value: nothing, or the keys of a map.
func blank(v reflect.Value, keys bool) reflect.Value {
	inner := v
	for inner.Kind() == reflect.Interface && !inner.IsNil() {
		inner = inner.Elem()
	}
	if !keys || inner.Kind() != reflect.Map || inner.Len() == 0 {
		return reflect.Zero(v.Type())
	}
	out := reflect.MakeMapWithSize(inner.Type(), inner.Len())
	for entries := inner.MapRange(); entries.Next(); {
		out.SetMapIndex(entries.Key(), emptied(entries.Value()))
	}
	if v.Kind() == reflect.Interface {
		return rewrap(v, out)
	}
	return out
}

// emptied returns the empty, non-null value of the same kind.
func emptied(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		return rewrap(v, emptied(v.Elem()))
	case reflect.Slice:
		return reflect.MakeSlice(v.Type(), 0, 0)
	case reflect.Map:
		return reflect.MakeMap(v.Type())
	}
	return reflect.Zero(v.Type())
}

// isNothing reports whether a value stands for a missing field.
func isNothing(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice:
		return v.IsNil()
	}
	return v.IsZero()
}

// isBare reports whether a container is empty.
func isBare(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface:
		return !v.IsNil() && isBare(v.Elem())
	case reflect.Pointer:
		return !v.IsNil() && v.Elem().Kind() == reflect.Struct && v.Elem().IsZero()
	case reflect.Map:
		return !v.IsNil() && v.Len() == 0
	}
	return false
}

// rawWithout hides in JSON that is stored verbatim, such as the data of a revision. JSON that cannot be read is not
// shown.
func rawWithout(raw runtime.RawExtension, at fieldperm.Path, keys bool) runtime.RawExtension {
	text := raw.Raw
	if len(text) == 0 && raw.Object != nil {
		encoded, err := json.Marshal(raw.Object)
		if err != nil {
			return runtime.RawExtension{}
		}
		text = encoded
	}
	if len(text) == 0 {
		return raw
	}
	content, err := decode(text)
	if err != nil {
		return runtime.RawExtension{}
	}
	left, err := json.Marshal(withoutAny(content, at, keys))
	if err != nil {
		return runtime.RawExtension{}
	}
	return runtime.RawExtension{Raw: left}
}

// withoutAny is without for what was decoded from JSON.
func withoutAny(content map[string]any, at fieldperm.Path, keys bool) map[string]any {
	out, _ := without(reflect.ValueOf(content), at, keys).Interface().(map[string]any)
	return out
}

// decode reads a JSON object and keeps its numbers as written.
func decode(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var content map[string]any
	if err := d.Decode(&content); err != nil {
		return nil, err
	}
	if content == nil {
		return nil, errors.New("not an object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the object")
	}
	return content, nil
}
