package openapi

import (
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// Extension lists the verbs that guard a field, for programs.
const Extension = "x-kubernetes-permission-verbs"

// maxHops bounds how many references lead to one schema.
const maxHops = 8

// Write adds the notes to a document. A field that the document does not have is left out.
func (n *Notes) Write(document *spec3.OpenAPI) {
	if document.Components == nil {
		return
	}
	d := writer{schemas: document.Components.Schemas, places: map[string]*place{}}
	own := d.own(n)
	for _, k := range n.Kinds {
		if name, ok := own[k.Kind]; ok {
			for _, g := range k.Guarded {
				d.note(name, k.Resource, g)
			}
		}
	}
	for _, p := range d.places {
		change(d.schemas[p.schema], p.inside, p.write)
	}
}

// writer collects what is to be said, and where.
type writer struct {
	schemas map[string]*spec.Schema
	places  map[string]*place
}

// place is a property of a schema, at any depth, and what to say about it.
type place struct {
	schema  string
	inside  fieldperm.Path
	sayings []*saying
}

// saying is one permission, of all resources that share the property.
type saying struct {
	entry     string
	guarded   fieldperm.Guarded
	resources []string
}

// own finds the schema of each kind of the group version.
func (d *writer) own(n *Notes) map[string]string {
	found := map[string]string{}
	for name, s := range d.schemas {
		list, _ := s.Extensions["x-kubernetes-group-version-kind"].([]any)
		if len(list) != 1 {
			continue // DeleteOptions and WatchEvent are of every group
		}
		gvk, _ := list[0].(map[string]any)
		if kind, ok := gvk["kind"].(string); ok && gvk["group"] == n.GroupVersion.Group && gvk["version"] == n.GroupVersion.Version {
			found[kind] = name
		}
	}
	return found
}

// note finds the property that a permission is about. What is said about an entry of a list or map is said where people
// look: at the list or map.
func (d *writer) note(kind string, r fieldperm.Resource, g fieldperm.Guarded) {
	path := g.Field
	for len(path) > 0 && path[len(path)-1].Bracket {
		path = path[:len(path)-1]
	}
	name, s := kind, d.schemas[kind]
	var inside fieldperm.Path
	for _, e := range path {
		for range maxHops {
			target, ok := reference(s)
			if !ok {
				break
			}
			name, s, inside = target, d.schemas[target], nil
		}
		if s = step(s, e); s == nil {
			return
		}
		inside = append(inside[:len(inside):len(inside)], e)
	}
	key := name + inside.String()
	if d.places[key] == nil {
		d.places[key] = &place{schema: name, inside: inside}
	}
	d.places[key].say(g.Field[len(path):].String(), r, g)
}

// reference is the schema that another one stands for.
func reference(s *spec.Schema) (string, bool) {
	if s == nil {
		return "", false
	}
	ref := s.Ref.String()
	if ref == "" && len(s.AllOf) == 1 {
		ref = s.AllOf[0].Ref.String()
	}
	return strings.CutPrefix(ref, "#/components/schemas/")
}

// step is one step into a schema; nil if it has no such part.
func step(s *spec.Schema, e fieldperm.Element) *spec.Schema {
	switch {
	case s == nil:
	case !e.Bracket:
		if next, ok := s.Properties[e.Name]; ok {
			return &next
		}
	case s.Items != nil:
		return s.Items.Schema
	case s.AdditionalProperties != nil:
		return s.AdditionalProperties.Schema
	}
	return nil
}

// change calls a function with the part of a schema at a path, and keeps what it does: properties are values.
func change(s *spec.Schema, path fieldperm.Path, do func(*spec.Schema)) {
	if len(path) == 0 {
		do(s)
		return
	}
	next := step(s, path[0])
	if next == nil {
		return
	}
	change(next, path[1:], do)
	if !path[0].Bracket {
		s.Properties[path[0].Name] = *next
	}
}

func (p *place) say(entry string, r fieldperm.Resource, g fieldperm.Guarded) {
	i := slices.IndexFunc(p.sayings, func(s *saying) bool {
		return s.entry == entry && s.guarded.Verb == g.Verb && s.guarded.Exclusive == g.Exclusive && s.guarded.Sometimes == g.Sometimes
	})
	if i < 0 {
		i = len(p.sayings)
		p.sayings = append(p.sayings, &saying{entry: entry, guarded: g})
	}
	if s := p.sayings[i]; !slices.Contains(s.resources, r.String()) {
		s.resources = append(s.resources, r.String())
	}
}

// write puts what was said into the property. A reference has no room for a description of its own, and is wrapped, as
// upstream does.
func (p *place) write(s *spec.Schema) {
	if s.Ref.String() != "" {
		*s = spec.Schema{SchemaProps: spec.SchemaProps{AllOf: []spec.Schema{{SchemaProps: spec.SchemaProps{Ref: s.Ref}}}}}
	}
	var sentences, verbs []string
	for _, one := range p.sayings {
		sentences = append(sentences, one.sentence())
		if !slices.Contains(verbs, one.guarded.Verb) {
			verbs = append(verbs, one.guarded.Verb)
		}
	}
	s.Description = strings.TrimPrefix(s.Description+"\n\n"+strings.Join(sentences, "\n"), "\n\n")
	s.AddExtension(Extension, verbs)
}

// sentence is what people read, such as
//
//	Field permission: granular:label(<prefix>) for one entry.
func (s *saying) sentence() string {
	text := "Field permission: " + s.guarded.Verb
	switch {
	case s.entry == "[]":
		text += " for one entry"
	case s.entry != "":
		text += " for " + s.entry
	}
	if !s.guarded.Everywhere {
		text += " of " + strings.Join(s.resources, ", ")
	}
	switch {
	case s.guarded.Sometimes:
		text += ", exclusive for some values: the right to update the object does not include them"
	case s.guarded.Exclusive:
		text += ", exclusive: the right to update the object does not include it"
	}
	return text + "."
}
