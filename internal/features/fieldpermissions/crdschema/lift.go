package crdschema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// lifted is what was taken out of a definition, or out of the part of one that a patch holds.
type lifted struct {
	// record is what is declared, nulls included.
	record record
	// carries is set if any of the keys was there, versions if the schemas were.
	carries, versions bool
	errs              field.ErrorList
	places            int
}

// lift takes the keys out of the schemas of a definition. Only places of a schema are looked at: a property or a
// default value may be called as it likes.
func lift(root any) lifted {
	l := lifted{record: record{}}
	var list []any
	list, l.versions = versionsOf(root)
	seen := map[string]bool{}
	for i, v := range list {
		schema := at(v, "schema", "openAPIV3Schema")
		if schema == nil {
			continue
		}
		name, _ := at(v)["name"].(string)
		w := lifter{version: name, into: &l}
		w.node(schema, schemaPath(i), true)
		switch {
		case !w.found:
		case name == "":
			l.errs = append(l.errs, field.Required(field.NewPath("spec", "versions").Index(i).Child("name"), "a version that declares permissions must have a name"))
		case seen[name]:
			l.errs = append(l.errs, field.Duplicate(field.NewPath("spec", "versions").Index(i).Child("name"), name))
		}
		seen[name] = true
	}
	if err := l.record.fits(); err != nil && len(l.errs) == 0 {
		l.errs = append(l.errs, field.Invalid(field.NewPath("spec", "versions"), field.OmitValueType{}, err.Error()))
	}
	return l
}

// lifter goes through the schema of one version.
type lifter struct {
	version string
	into    *lifted
	found   bool
	// trail leads to the node that is looked at; it becomes a place only where something is declared.
	trail []string
}

// maxErrors keeps the answer to a hostile body small.
const maxErrors = 16

// node takes the keys out of one node of a schema. isField is set where the node describes a field of the object, and
// not inside of allOf and its kin, which only restrict what is described elsewhere.
func (w *lifter) node(schema map[string]any, path *field.Path, isField bool) {
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		if isOurs(key) {
			w.take(key, schema[key], path.Child(key), isField)
			delete(schema, key)
			continue
		}
		w.below(key, schema[key], path, isField)
	}
}

func (w *lifter) take(key string, value any, path *field.Path, isField bool) {
	w.found, w.into.carries = true, true
	if len(w.into.errs) >= maxErrors {
		return
	}
	err := checkKey(key, value)
	switch {
	case err != nil:
	case !isField:
		err = errors.New("a permission is declared where the field is described: below properties, items and additionalProperties")
	case len(w.trail) == 0:
		err = errors.New("a permission is declared for a field and not for the whole object")
	case len(w.trail) > 2*maxDepth:
		err = errTooDeep
	default:
		at := place("/" + strings.Join(w.trail, "/"))
		if _, err = at.steps(); err == nil {
			err = w.into.put(w.version, at, key, value)
		}
	}
	if err != nil {
		w.into.errs = append(w.into.errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	}
}

// put records a key, as long as there are not too many.
func (l *lifted) put(version string, at place, key string, value any) error {
	if l.record[version][at] == nil {
		if l.places++; l.places > maxEntries {
			return fmt.Errorf("permissions can be declared for at most %d fields", maxEntries)
		}
	}
	l.record.put(version, at, key, value)
	return nil
}

// below goes on to the nodes below one member of a node.
func (w *lifter) below(key string, value any, path *field.Path, isField bool) {
	switch key {
	case properties, "patternProperties", "definitions", "dependencies":
		m, _ := value.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if schema, ok := m[name].(map[string]any); ok {
				w.down(schema, path.Child(key).Key(name), isField && key == properties, key, escape.Replace(name))
			}
		}
	case items, additional, "additionalItems", "not":
		if schema, ok := value.(map[string]any); ok {
			w.down(schema, path.Child(key), isField && (key == items || key == additional), key)
			return
		}
		fallthrough
	case "allOf", "anyOf", "oneOf":
		schemas, _ := value.([]any)
		for i, s := range schemas {
			if schema, ok := s.(map[string]any); ok {
				w.down(schema, path.Child(key).Index(i), false, key)
			}
		}
	}
}

func (w *lifter) down(schema map[string]any, path *field.Path, isField bool, trail ...string) {
	before := len(w.trail)
	w.trail = append(w.trail, trail...)
	w.node(schema, path, isField)
	w.trail = w.trail[:before]
}
