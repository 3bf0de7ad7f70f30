package crdschema

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// Names of the places in a schema that describe a field of the object.
const (
	properties = "properties"
	items      = "items"
	additional = "additionalProperties"
)

// maxDepth is how many levels below the object a permission can be declared, as for every path of a permission.
const maxDepth = 64

var errTooDeep = fmt.Errorf("a permission can be declared at most %d levels deep", maxDepth)

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// step is one level of a place.
type step struct {
	// kind is properties, items or additionalProperties.
	kind string
	// name of the property.
	name string
}

// steps reads a place. Only what describes a field of the object has any.
func (p place) steps() ([]step, error) {
	if p == "" {
		return nil, nil
	}
	parts := strings.Split(string(p), "/")
	if parts[0] != "" {
		return nil, fmt.Errorf("place %q does not start with a slash", p)
	}
	var all []step
	for parts = parts[1:]; len(parts) > 0; parts = parts[1:] {
		switch {
		case parts[0] == items || parts[0] == additional:
			all = append(all, step{kind: parts[0]})
		case parts[0] == properties && len(parts) > 1:
			all = append(all, step{kind: properties, name: unescape.Replace(parts[1])})
			parts = parts[1:]
		default:
			return nil, fmt.Errorf("place %q does not describe a field of the object", p)
		}
		if len(all) > maxDepth {
			return nil, errTooDeep
		}
	}
	return all, nil
}

// path is the field of the object that the place describes.
func (p place) path() (fieldperm.Path, error) {
	steps, err := p.steps()
	if err != nil {
		return nil, err
	}
	path := make(fieldperm.Path, len(steps))
	for i, s := range steps {
		path[i] = fieldperm.Any()
		if s.kind == properties {
			path[i] = fieldperm.Field(s.name)
		}
	}
	return path, nil
}

// in is where the place is in the definition, for messages.
func (p place) in(schema *field.Path) *field.Path {
	steps, err := p.steps()
	if err != nil {
		return schema
	}
	for _, s := range steps {
		schema = schema.Child(s.kind)
		if s.kind == properties {
			schema = schema.Key(s.name)
		}
	}
	return schema
}

// schemaPath is where the schema of a version is.
func schemaPath(version int) *field.Path {
	return field.NewPath("spec", "versions").Index(version).Child("schema", "openAPIV3Schema")
}
