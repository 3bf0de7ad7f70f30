package crdschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Annotation holds the declarations of a stored definition. The server alone writes it.
const Annotation = "proviso.dev/x-kubernetes-permissions"

// The keys of a declaration.
const (
	KeyPrefix    = "x-kubernetes-permission-"
	KeyVerb      = KeyPrefix + "verb"
	KeyParameter = KeyPrefix + "parameterized-by"
	KeyTreatment = KeyPrefix + "parameter-treatment"
	KeyExclusive = KeyPrefix + "exclusive"
	KeyWhen      = KeyPrefix + "exclusive-when"
	// KeyTemplate stands alone: the field is the template of a pod (FP-19).
	KeyTemplate = "x-proviso-embedded-template"
)

// podTemplate is the only template that can be declared.
const podTemplate = "Pod"

// keys in the order of the documentation.
var keys = []string{KeyVerb, KeyParameter, KeyTreatment, KeyExclusive, KeyWhen, KeyTemplate}

// isOurs reports whether a member of a schema is one of ours, or one like it.
func isOurs(name string) bool { return strings.HasPrefix(name, KeyPrefix) || name == KeyTemplate }

const (
	maxEntries = 512
	maxRecord  = 64 << 10
)

// record is everything that the schemas of a definition declare: by version, then by place in the schema.
type record map[string]map[place]entry

// place is a JSON pointer below openAPIV3Schema: /properties/spec/properties/level.
type place string

// entry is what is written at one place: a string or bool for each key, or nil where null is written, which removes.
type entry map[string]any

// decode reads an annotation. An empty text is an empty record. With an error comes what could be read.
func decode(text string) (record, error) {
	if text == "" {
		return record{}, nil
	}
	if len(text) > maxRecord {
		return record{}, fmt.Errorf("annotation %s is longer than %d bytes", Annotation, maxRecord)
	}
	r := record{}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return record{}, fmt.Errorf("annotation %s cannot be read: %w", Annotation, err)
	}
	var first error
	for version, places := range r {
		for at, e := range places {
			if err := e.check(); err != nil && first == nil {
				first = fmt.Errorf("annotation %s: version %s: %s: %w", Annotation, version, at, err)
			}
		}
	}
	return r, first
}

func (e entry) check() error {
	for _, key := range slices.Sorted(maps.Keys(e)) {
		if err := checkKey(key, e[key]); err != nil {
			return fmt.Errorf("%s %w", key, err)
		}
	}
	return nil
}

// checkKey reports whether a key is one of ours and its value of the right type.
func checkKey(key string, value any) error {
	if !slices.Contains(keys, key) {
		return fmt.Errorf("must be one of %s", strings.Join(keys, ", "))
	}
	if value == nil {
		return nil
	}
	if key == KeyExclusive {
		if _, ok := value.(bool); !ok {
			return fmt.Errorf("must be true or false, or null to remove it")
		}
		return nil
	}
	if key == KeyTemplate && value != podTemplate {
		return fmt.Errorf("must be %s, or null to remove it", podTemplate)
	}
	if _, ok := value.(string); !ok {
		return fmt.Errorf("must be a string, or null to remove it")
	}
	return nil
}

// encode is the same text for equal records, and empty for an empty one.
func (r record) encode() (string, error) {
	if r.size() == 0 {
		return "", nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("declarations cannot be written: %w", err)
	}
	return string(text), nil
}

// size counts the places.
func (r record) size() int {
	n := 0
	for _, places := range r {
		n += len(places)
	}
	return n
}

// fits reports whether a record is small enough to be stored.
func (r record) fits() error {
	if n := r.size(); n > maxEntries {
		return fmt.Errorf("definition declares permissions for %d fields: the limit is %d", n, maxEntries)
	}
	text, err := r.encode()
	if err != nil {
		return err
	}
	if len(text) > maxRecord {
		return fmt.Errorf("declarations take %d bytes: the limit is %d", len(text), maxRecord)
	}
	return nil
}

// put adds a key at a place.
func (r record) put(version string, at place, key string, value any) {
	if r[version] == nil {
		r[version] = map[place]entry{}
	}
	if r[version][at] == nil {
		r[version][at] = entry{}
	}
	r[version][at][key] = value
}

// stated is the entry without its nulls.
func (e entry) stated() entry {
	out := entry{}
	for key, value := range e {
		if value != nil {
			out[key] = value
		}
	}
	return out
}

// permission is the entry without what it says about a template.
func (e entry) permission() entry {
	out := entry{}
	maps.Copy(out, e)
	delete(out, KeyTemplate)
	return out
}

// without is the entry without what another one says something about: its permission as a whole, and its template.
func (e entry) without(said entry) entry {
	out := maps.Clone(e)
	if _, says := said[KeyVerb]; says {
		out = entry{}
		if template := e[KeyTemplate]; template != nil {
			out[KeyTemplate] = template
		}
	}
	if _, says := said[KeyTemplate]; says {
		delete(out, KeyTemplate)
	}
	return out
}

// what names what the entry declares, for people.
func (e entry) what() string {
	if name := e.text(KeyVerb); name != "" {
		return name
	}
	return "template of a " + e.text(KeyTemplate)
}

// lacking is the part of the entry that another one does not have.
func (e entry) lacking(current entry) entry {
	out := maps.Clone(e)
	if reflect.DeepEqual(e.permission(), current.permission()) {
		out = e.without(entry{KeyVerb: nil})
	}
	if e[KeyTemplate] == current[KeyTemplate] {
		delete(out, KeyTemplate)
	}
	return out
}

func (e entry) text(key string) string {
	s, _ := e[key].(string)
	return s
}
