package policycodec

import (
	_ "embed"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// A release treats an unknown field as a deny. So replicas publish which fields they know, and a server does not store
// a field that one of them does not know (PO-25). Every release knows the fields of the first one: only later fields
// are listed.

// firstRelease lists the fields that the first release could store. It never changes.
//
//go:embed first-release.txt
var firstRelease string

// laterFields are the fields of a kind, by its Go type, that came after the first release.
var laterFields = sync.OnceValue(func() map[reflect.Type][]string { return laterThan(strings.Fields(firstRelease)) })

func laterThan(first []string) map[reflect.Type][]string {
	later, scheme := map[reflect.Type][]string{}, VersionedScheme()
	for _, kind := range StoredKinds() {
		t := scheme.AllKnownTypes()[kind]
		for _, path := range storedShapes()[kind.GroupKind()].paths("") {
			if !slices.Contains(first, kind.Kind+path) {
				later[t] = append(later[t], path)
			}
		}
	}
	return later
}

// KnownFields returns the fields that this release can store and the first one did not know, in order. They have the
// form "Policy.roles[].rules[].deny".
func KnownFields() []string { return known(laterFields()) }

func known(later map[reflect.Type][]string) (known []string) {
	for t, paths := range later {
		for _, path := range paths {
			known = append(known, t.Name()+path)
		}
	}
	slices.Sort(known)
	return known
}

// FieldsInUse returns those of KnownFields with which an object will be stored.
func FieldsInUse(obj runtime.Object) []string { return inUse(obj, laterFields()) }

func inUse(obj runtime.Object, later map[reflect.Type][]string) (used []string) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil
	}
	for _, path := range later[v.Type().Elem()] {
		if stores(v.Elem(), path) {
			used = append(used, v.Type().Elem().Name()+path)
		}
	}
	return used
}

// paths lists the fields of a shape at every level.
func (s *shape) paths(at string) (all []string) {
	for i, name := range s.names {
		all = append(all, at+"."+name)
		all = append(all, s.fields[i].paths(at+"."+name)...)
	}
	if s.each != nil {
		all = append(all, s.each.paths(at+"[]")...)
	}
	return all
}

// stores reports whether a value is written with the field at the path.
func stores(v reflect.Value, path string) bool {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return false
		}
		v = v.Elem()
	}
	if rest, ok := strings.CutPrefix(path, "[]"); ok {
		switch v.Kind() {
		case reflect.Map:
			for _, key := range v.MapKeys() {
				if stores(v.MapIndex(key), rest) {
					return true
				}
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				if stores(v.Index(i), rest) {
					return true
				}
			}
		}
		return false
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	name, rest := strings.TrimPrefix(path, "."), ""
	if end := strings.IndexAny(name, ".["); end >= 0 {
		name, rest = name[:end], name[end:]
	}
	field, always, ok := fieldNamed(v, name)
	switch {
	case !ok:
		return true // encoded by its own code, like a restriction: in doubt, yes
	case rest != "":
		return stores(field, rest)
	}
	return always || !field.IsZero()
}

// fieldNamed returns the field that is encoded under a name, and whether it is encoded even when it is empty.
func fieldNamed(v reflect.Value, name string) (field reflect.Value, always, ok bool) {
	for i := range v.NumField() {
		tag, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch {
		case tag == name && tag != "-" && v.Type().Field(i).IsExported():
			return v.Field(i), !strings.Contains(options, "omit"), true
		case tag == "" && v.Type().Field(i).Anonymous && v.Field(i).Kind() == reflect.Struct:
			if field, always, ok = fieldNamed(v.Field(i), name); ok {
				return field, always, ok
			}
		}
	}
	return field, false, false
}
