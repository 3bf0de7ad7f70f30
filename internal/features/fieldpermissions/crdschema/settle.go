package crdschema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// settlement is what a write leaves stored.
type settlement struct {
	record record
	// kept names what the write left out and which stays nevertheless.
	kept []string
}

// settle joins what a write says with what is stored. Declarations that are left out stay, as long as the schema still
// has the field; null removes them. Without a verb there is nothing to declare, so null for the verb removes the rest,
// too.
//
// A write that carries nothing may add a version: that gets what the storage version has, where it has the same fields.
func settle(stored, written record, old, new *apiextensions.CustomResourceDefinition) settlement {
	s := settlement{record: record{}}
	for i := range new.Spec.Versions {
		version := new.Spec.Versions[i].Name
		base := stored[version]
		if written == nil && old != nil && !hasVersion(old, version) {
			base = stored[storageVersion(old)]
		}
		places := map[place]entry{}
		for at, e := range base {
			if hasPlace(new, version, at) {
				places[at] = maps.Clone(e)
			}
		}
		s.keep(version, places, written[version])
		for at, e := range written[version] {
			if places[at] == nil {
				places[at] = entry{}
			}
			if value, given := e[KeyVerb]; given && value == nil {
				places[at] = places[at].without(entry{KeyVerb: nil})
			}
			maps.Copy(places[at], e)
			places[at] = places[at].stated()
		}
		maps.DeleteFunc(places, func(_ place, e entry) bool { return len(e) == 0 })
		if len(places) > 0 {
			s.record[version] = places
		}
	}
	return s
}

// keep notes what stays although it was left out.
func (s *settlement) keep(version string, have, written map[place]entry) {
	for _, at := range slices.Sorted(maps.Keys(have)) {
		e, given := written[at]
		value, removes := e[KeyVerb]
		removes = removes && value == nil
		if !given {
			s.kept = append(s.kept, at.label(version))
			continue
		}
		for _, key := range keys {
			_, says := e[key]
			_, stored := have[at][key]
			switch {
			case says || !stored || removes && key != KeyTemplate:
			default:
				s.kept = append(s.kept, at.label(version)+" "+key)
			}
		}
	}
}

func (p place) label(version string) string {
	path, err := p.path()
	if err != nil {
		return version + " " + string(p)
	}
	return version + " " + path.String()
}

// maxNamed is how many fields a warning names.
const maxNamed = 5

// warning tells the author of a write that leaving a field out did not remove it.
func (s settlement) warning() string {
	named, more := s.kept, ""
	if len(named) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(named)-maxNamed)
		named = named[:maxNamed]
	}
	return fmt.Sprintf("field permissions that the schema left out are kept: %s%s; to remove one, write null, as in %s: null", strings.Join(named, ", "), more, KeyVerb)
}

func hasVersion(crd *apiextensions.CustomResourceDefinition, name string) bool {
	return slices.ContainsFunc(crd.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool { return v.Name == name })
}

func storageVersion(crd *apiextensions.CustomResourceDefinition) string {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Storage {
			return crd.Spec.Versions[i].Name
		}
	}
	return ""
}

// hasPlace reports whether the schema of a version describes a field.
func hasPlace(crd *apiextensions.CustomResourceDefinition, version string, at place) bool {
	return schemaAt(crd, version, at) != nil
}

// schemaAt is how the schema of a version describes a field; nil if it does not.
func schemaAt(crd *apiextensions.CustomResourceDefinition, version string, at place) *apiextensions.JSONSchemaProps {
	validation, err := apiextensions.GetSchemaForVersion(crd, version)
	if err != nil || validation == nil || validation.OpenAPIV3Schema == nil {
		return nil
	}
	steps, err := at.steps()
	if err != nil {
		return nil
	}
	node := validation.OpenAPIV3Schema
	for _, s := range steps {
		switch {
		case s.kind == properties:
			next, ok := node.Properties[s.name]
			if !ok {
				return nil
			}
			node = &next
		case s.kind == items && node.Items != nil && node.Items.Schema != nil:
			node = node.Items.Schema
		case s.kind == additional && node.AdditionalProperties != nil && node.AdditionalProperties.Schema != nil:
			node = node.AdditionalProperties.Schema
		default:
			return nil
		}
	}
	return node
}
