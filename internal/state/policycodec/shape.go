package policycodec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// shape is what a stored value can have, at every level. Stored content outside the shape is not known to this release,
// and may deny.
type shape struct {
	// names and fields are the fields of a struct. For a struct without any, names is empty, not nil.
	names  []string
	fields []*shape
	// each is the shape of the elements of a list or, with keyed, of the values of a map.
	each  *shape
	keyed bool
	// open accepts anything.
	open bool
	// own marks a rule: it keeps its unknown fields itself, so they do not affect other rules.
	own bool
}

// shapeOf returns the shape of a stored kind.
func shapeOf(kind schema.GroupKind) *shape { return storedShapes()[kind] }

var storedShapes = sync.OnceValue(func() map[schema.GroupKind]*shape {
	all, scheme := map[schema.GroupKind]*shape{}, VersionedScheme()
	for _, kind := range StoredKinds() {
		if t, ok := scheme.AllKnownTypes()[kind]; ok {
			all[kind.GroupKind()] = newShape(t)
		}
	}
	return all
})

var (
	roleShape        = sync.OnceValue(func() *shape { return newShape(reflect.TypeFor[policy.PolicyRole]()) })
	roleBindingShape = sync.OnceValue(func() *shape { return newShape(reflect.TypeFor[policy.PolicyRoleBinding]()) })
	ruleShape        = sync.OnceValue(func() *shape { return newShape(reflect.TypeFor[policy.PolicyRule]()) })
)

// newShape reads the shape from a Go type. It also includes what a type with its own decoder accepts beyond its fields.
func newShape(t reflect.Type) *shape {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return &shape{}
	case reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[runtime.RawExtension]():
		return &shape{open: true}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return newShape(t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 { // written as text
			return &shape{}
		}
		return &shape{each: newShape(t.Elem())}
	case reflect.Map:
		return &shape{each: newShape(t.Elem()), keyed: true}
	case reflect.Struct:
		s := &shape{names: []string{}, own: t == reflect.TypeFor[policy.PolicyRule]()}
		s.addFields(t)
		if t == reflect.TypeFor[policy.AttributeRestrictions]() {
			for _, name := range policy.RestrictionSpellings() {
				s.names, s.fields = append(s.names, name), append(s.fields, &shape{open: true})
			}
		}
		return s
	}
	return &shape{}
}

func (s *shape) addFields(t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && (field.Anonymous || options == "inline"):
			s.addFields(field.Type)
		default:
			s.names, s.fields = append(s.names, name), append(s.fields, newShape(field.Type))
		}
	}
}

// field returns the shape of a field; nil if there is none of that name.
func (s *shape) field(name string) *shape {
	if i := slices.Index(s.names, name); i >= 0 {
		return s.fields[i]
	}
	return nil
}

// has reports whether the path is that of a known field, ignoring the case of names.
func (s *shape) has(path string) bool {
	rest := path
	for rest != "" {
		if tail, ok := strings.CutPrefix(rest, "[]"); ok {
			if s.open {
				return true
			}
			if s = s.each; s == nil {
				return false
			}
			rest = tail
			continue
		}
		name, ok := strings.CutPrefix(rest, ".")
		if !ok {
			return false
		}
		end := strings.IndexAny(name, ".[")
		if end < 0 {
			end = len(name)
		}
		if s.open {
			return true
		}
		i := slices.IndexFunc(s.names, func(known string) bool { return strings.EqualFold(known, name[:end]) })
		if i < 0 {
			return false
		}
		s, rest = s.fields[i], name[end:]
	}
	return path != ""
}

// stranger is a field of a stored object that is unknown, duplicate, or empty where an entry is required.
type stranger struct {
	// path has empty brackets in place of keys and positions; shown has them.
	path, shown string
	value       json.RawMessage
	// known is true if a field of this name exists, ignoring case: such a field is never harmless.
	known bool
}

func (s stranger) Error() string {
	return fmt.Sprintf("field %q is not known to this version, or is given twice", strings.TrimPrefix(s.shown, "."))
}

// holdsSeveral reports whether the field holds a list or an object, and so may be a list of entries or subjects.
func (s stranger) holdsSeveral() bool {
	text := bytes.TrimLeft(s.value, " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// strangers lists what the value has beyond the shape and is not harmless, in a stable order. A known field of another
// type is not among them: it is an error of decoding.
func (s *shape) strangers(raw json.RawMessage, at string, harmless paths) (found []stranger) {
	s.look(raw, at, at, func(one stranger) {
		if !harmless.cover(one) {
			found = append(found, one)
		}
	})
	return found
}

func (s *shape) look(raw json.RawMessage, path, shown string, report func(stranger)) {
	if s.open {
		return
	}
	text := bytes.TrimLeft(raw, " \t\r\n")
	switch {
	case len(text) == 0:
	case text[0] == '{' && s.names != nil:
		s.lookFields(text, path, shown, report)
	case text[0] == '{' && s.each != nil:
		var values parts
		if json.Unmarshal(text, &values) != nil {
			return
		}
		if !s.keyed { // one object instead of a list of them, which some lists accept
			s.each.look(text, path+"[]", shown, report)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			s.lookElement(values[key], path+"[]", shown+"["+key+"]", report)
		}
	case text[0] == '[' && s.each != nil:
		var values []json.RawMessage
		if json.Unmarshal(text, &values) != nil {
			return
		}
		for i, value := range values {
			s.lookElement([]json.RawMessage{value}, path+"[]", fmt.Sprintf("%s[%d]", shown, i), report)
		}
	}
}

func (s *shape) lookElement(values []json.RawMessage, path, shown string, report func(stranger)) {
	if len(values) > 1 || s.each.names != nil && string(values[0]) == "null" {
		report(stranger{path: path, shown: shown, value: values[0], known: true})
		return
	}
	s.each.look(values[0], path, shown, report)
}

func (s *shape) lookFields(text []byte, path, shown string, report func(stranger)) {
	if s.own {
		return
	}
	var values parts
	if json.Unmarshal(text, &values) != nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		known := s.field(key)
		if known != nil && len(values[key]) == 1 {
			known.look(values[key][0], path+"."+key, shown+"."+key, report)
			continue
		}
		alike := slices.ContainsFunc(s.names, func(name string) bool { return strings.EqualFold(name, key) })
		report(stranger{path: path + "." + key, shown: shown + "." + key, value: values[key][0], known: alike || len(values[key]) > 1})
	}
}
