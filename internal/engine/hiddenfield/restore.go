package hiddenfield

import (
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// Removal is the error of a write that would remove a hidden field, or something that may hold one.
type Removal struct {
	Hidden fieldperm.Hidden
	// At is what would be removed.
	At fieldperm.Path
}

// Error implements error.
func (r *Removal) Error() string {
	return fmt.Sprintf("removing %s takes %s: the field %s is hidden from you (%s)", r.At, r.Hidden.Verb(), r.Hidden.Field, r.Hidden.Source)
}

// Keyed knows the fields that identify the elements of a list; none if no schema says so.
type Keyed func(list fieldperm.Path) []string

// Restored is a write with what its author does not see.
type Restored struct {
	Object runtime.Object
	// Set are the hidden fields that the author has set.
	Set Set
}

// Restore puts hidden values back into a write whose author does not see them: where the field is absent, or where a
// key has the empty value that is shown. Both objects are in the version that the fields are declared for; neither is
// changed.
func (s Set) Restore(old, new runtime.Object, keyed Keyed) (Restored, error) {
	shownOld, err := s.content(old)
	if err != nil {
		return Restored{}, err
	}
	shownNew, err := s.content(new)
	if err != nil {
		return Restored{}, err
	}
	var set Set
	out := contentOf(new)
	for _, f := range s {
		b := back{hidden: f, keyed: keyed}
		o, so, sn := contentOf(old), contentOf(shownOld), contentOf(shownNew)
		if _, err = b.within(o, contentOf(new), so, sn, f.Field, nil); err != nil {
			return Restored{}, err
		}
		if b.set {
			set = append(set, f)
		}
		// What was restored for one field may contain another one.
		if out, err = b.within(o, out, so, sn, f.Field, nil); err != nil {
			return Restored{}, err
		}
	}
	made, err := objectOf(out, new)
	if err != nil {
		return Restored{}, err
	}
	return Restored{Object: made, Set: set}, nil
}

// contentOf returns the container of an object's fields.
func contentOf(o runtime.Object) reflect.Value {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return reflect.ValueOf(u.Object)
	}
	return reflect.ValueOf(o)
}

func objectOf(content reflect.Value, like runtime.Object) (runtime.Object, error) {
	if _, ok := like.(*unstructured.Unstructured); ok {
		object, _ := content.Interface().(map[string]any)
		out := &unstructured.Unstructured{Object: maps.Clone(object)}
		if m, ok := out.Object["metadata"].(map[string]any); ok {
			out.Object["metadata"] = maps.Clone(m)
		}
		return out, nil
	}
	out, ok := content.Interface().(runtime.Object)
	if !ok {
		return nil, errNoObject
	}
	return out, nil
}

// less returns the fields that are not in another set.
func (s Set) less(other Set) Set {
	var left Set
	for _, f := range s {
		if !other.has(f) {
			left = append(left, f)
		}
	}
	return left
}

func (s Set) has(f fieldperm.Hidden) bool {
	for _, g := range s {
		if g.Permission == f.Permission && g.Field.String() == f.Field.String() {
			return true
		}
	}
	return false
}

// RestoreMetadata restores what metadata has about hidden fields: what kubectl applied and, except for fields that the
// author has set, their managers. Applied is true if the author has written the former. The object may be changed.
func (s Set) RestoreMetadata(old, new runtime.Object, set Set, applied bool) error {
	before, err := meta.Accessor(old)
	if err != nil {
		return err
	}
	after, err := meta.Accessor(new)
	if err != nil {
		return err
	}
	kept := false
	if applied {
		if kept, err = s.restoreApplied(before, after, set); err != nil {
			return err
		}
	}
	Unmark(after)
	if s = s.less(set); kept || len(s) > 0 || len(after.GetManagedFields()) > 0 {
		after.SetManagedFields(s.restoreManagers(before.GetManagedFields(), after.GetManagedFields(), kept))
	}
	return nil
}

// back puts one hidden field back.
type back struct {
	hidden fieldperm.Hidden
	keyed  Keyed
	// set is true if the author has set the field.
	set bool
}

// within puts it back into a container that both objects have. so and sn are what is shown of the stored and of the
// written container.
func (b *back) within(o, n, so, sn reflect.Value, at, from fieldperm.Path) (reflect.Value, error) {
	if n.Kind() == reflect.Interface {
		if o.IsNil() || n.IsNil() || o.Elem().Type() != n.Elem().Type() {
			return b.apart(n)
		}
		inner, err := b.within(o.Elem(), n.Elem(), unwrapped(so, o), unwrapped(sn, n), at, from)
		if err != nil {
			return n, err
		}
		return rewrap(n, inner), nil
	}
	switch n.Kind() {
	case reflect.Pointer:
		inner, err := b.within(o.Elem(), n.Elem(), pointed(so, o), pointed(sn, n), at, from)
		if err != nil {
			return n, err
		}
		out := reflect.New(n.Type().Elem())
		out.Elem().Set(inner)
		return out, nil
	case reflect.Struct:
		return b.inStruct(o, n, so, sn, at, from)
	case reflect.Map:
		return b.inMap(o, n, so, sn, at, from)
	case reflect.Slice:
		return b.inList(o, n, so, sn, at, from)
	}
	return n, nil
}

// apart handles a container of another type than before: nothing of the stored one fits into it.
func (b *back) apart(n reflect.Value) (reflect.Value, error) {
	b.set = true
	return n, nil
}

// unwrapped returns the value in an interface, or the empty value of the type in another one.
func unwrapped(v, like reflect.Value) reflect.Value {
	if v.IsValid() && v.Kind() == reflect.Interface && !v.IsNil() && v.Elem().Type() == like.Elem().Type() {
		return v.Elem()
	}
	return reflect.Zero(like.Elem().Type())
}

func pointed(v, like reflect.Value) reflect.Value {
	if v.IsValid() && v.Kind() == reflect.Pointer && !v.IsNil() {
		return v.Elem()
	}
	return reflect.Zero(like.Type().Elem())
}

func (b *back) inStruct(o, n, so, sn reflect.Value, at, from fieldperm.Path) (reflect.Value, error) {
	if n.Type() == rawExtension {
		return b.inRaw(o, n, at, from)
	}
	index, ok := fieldsOf(n.Type())[at[0].Name]
	if !ok || at[0].Any {
		return n, nil
	}
	out := reflect.New(n.Type()).Elem()
	out.Set(n)
	child, err := b.child(o.FieldByIndex(index), n.FieldByIndex(index), so.FieldByIndex(index), sn.FieldByIndex(index), at, from)
	if err != nil {
		return n, err
	}
	out.FieldByIndex(index).Set(child)
	return out, nil
}

// child puts the field back at, or below, one entry of a container.
func (b *back) child(o, n, so, sn reflect.Value, at, from fieldperm.Path) (reflect.Value, error) {
	here := append(from[:len(from):len(from)], at[0])
	if len(at) == 1 {
		return b.value(o, n), nil
	}
	if !nilable(n) {
		return b.within(o, n, so, sn, at[1:], here)
	}
	switch {
	case o.IsNil():
		b.set = b.set || !n.IsNil() && holds(n, at[1:])
		return n, nil
	case !n.IsNil():
		return b.within(o, n, so, sn, at[1:], here)
	case isGone(so):
		return o, nil // nothing of it was shown
	case o.Kind() == reflect.Slice && o.Len() == 0:
		return n, nil
	case !mayHold(so, at[1:]):
		return n, nil
	}
	return n, &Removal{Hidden: b.hidden, At: here}
}

// isGone reports whether nothing of a container was shown.
func isGone(v reflect.Value) bool { return !v.IsValid() || nilable(v) && v.IsNil() }

func nilable(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice:
		return true
	}
	return false
}

// holds reports whether a value has something at a path.
func holds(v reflect.Value, at fieldperm.Path) bool {
	return !reflect.DeepEqual(v.Interface(), without(v, at, false).Interface())
}

// mayHold reports whether a value as shown may contain a hidden field: lists are shown with all their elements, so an
// empty list hides nothing.
func mayHold(shown reflect.Value, at fieldperm.Path) bool {
	switch shown.Kind() {
	case reflect.Interface, reflect.Pointer:
		return shown.IsNil() || mayHold(shown.Elem(), at)
	case reflect.Struct:
		index, ok := fieldsOf(shown.Type())[at[0].Name]
		return ok && (len(at) == 1 || mayHold(shown.FieldByIndex(index), at[1:])) || shown.Type() == rawExtension
	case reflect.Slice:
		for i := range shown.Len() {
			if len(at) == 1 || mayHold(shown.Index(i), at[1:]) {
				return true
			}
		}
		return false
	}
	return true
}

// value returns the hidden value: the stored one, if the author has left it out.
func (b *back) value(o, n reflect.Value) reflect.Value {
	switch {
	case isAbsent(n):
		return o
	case n.Kind() == reflect.Interface:
		if isAbsent(o) || o.Elem().Type() != n.Elem().Type() {
			break
		}
		return rewrap(n, b.value(o.Elem(), n.Elem()))
	case n.Kind() == reflect.Map && o.Len() > 0:
		out := reflect.MakeMapWithSize(n.Type(), n.Len())
		for _, key := range n.MapKeys() {
			out.SetMapIndex(key, n.MapIndex(key))
			b.set = b.set || !b.hidden.Keys || !isEmptyValue(n.MapIndex(key))
		}
		for _, key := range o.MapKeys() {
			if written := n.MapIndex(key); !written.IsValid() || b.hidden.Keys && isEmptyValue(written) {
				out.SetMapIndex(key, o.MapIndex(key))
			}
		}
		return out
	}
	b.set = true
	return n
}

// isAbsent reports whether the author has left a hidden value out.
func isAbsent(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface:
		return v.IsNil() || isAbsent(v.Elem())
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	}
	return v.IsZero()
}

// isEmptyValue reports whether a value is the empty one that is shown for a key.
func isEmptyValue(v reflect.Value) bool { return isAbsent(v) }
