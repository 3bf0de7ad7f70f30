package snapshot

import (
	"crypto/sha256"
	"encoding/json"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Shapes says how the versions of a custom resource differ that is converted only by changing apiVersion. Whenever the
// server reads an object in a version, it drops what the schema of the version does not have.
type Shapes struct {
	// Storage is the version in which objects are stored.
	Storage string
	// Of is a hash of each version's schema. A missing version may have any shape.
	Of map[string][sha256.Size]byte
}

// ShapesOf returns the custom resources without a conversion webhook whose versions have different schemas.
func ShapesOf(definitions []*apiextensions.CustomResourceDefinition) map[schema.GroupResource]Shapes {
	all := map[schema.GroupResource]Shapes{}
	for _, d := range definitions {
		if d == nil || len(d.Spec.Versions) < 2 || converts(d) || d.Spec.PreserveUnknownFields {
			continue
		}
		shapes := Shapes{Of: map[string][sha256.Size]byte{}}
		different := map[[sha256.Size]byte]bool{}
		for i := range d.Spec.Versions {
			v := &d.Spec.Versions[i]
			if v.Storage {
				shapes.Storage = v.Name
			}
			if !v.Served && !v.Storage {
				continue
			}
			shape := shapeOf(v)
			shapes.Of[v.Name], different[shape] = shape, true
		}
		if len(different) > 1 {
			all[schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}] = shapes
		}
	}
	return all
}

func converts(d *apiextensions.CustomResourceDefinition) bool {
	return d.Spec.Conversion != nil && d.Spec.Conversion.Strategy != apiextensions.NoneConverter && d.Spec.Conversion.Strategy != ""
}

// shapeOf returns a hash of what decides which fields are kept, and their defaults.
func shapeOf(v *apiextensions.CustomResourceDefinitionVersion) (shape [sha256.Size]byte) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return shape
	}
	plain := v.Schema.OpenAPIV3Schema.DeepCopy()
	strip(plain)
	text, err := json.Marshal(plain)
	if err != nil {
		text = []byte(v.Name) // it differs from all others
	}
	return sha256.Sum256(text)
}

// strip removes what does not affect the shape.
func strip(s *apiextensions.JSONSchemaProps) {
	if s == nil {
		return
	}
	s.Description, s.Title, s.Example, s.ExternalDocs, s.XValidations = "", "", nil, nil, nil
	for name, p := range s.Properties {
		strip(&p)
		s.Properties[name] = p
	}
	if s.Items != nil {
		strip(s.Items.Schema)
		for i := range s.Items.JSONSchemas {
			strip(&s.Items.JSONSchemas[i])
		}
	}
	if s.AdditionalProperties != nil {
		strip(s.AdditionalProperties.Schema)
	}
}

// Lost reports whether an object of a custom resource that was read in one version may lack fields of another one.
func (s *Served) Lost(gr schema.GroupResource, read, wanted string) bool {
	if s == nil || read == wanted {
		return false
	}
	shapes, differ := s.shapes[gr]
	if !differ {
		return false
	}
	a, known := shapes.Of[read]
	b, too := shapes.Of[wanted]
	return !known || !too || a != b
}

// Hides reports whether an object that was read in one version may lack what a rule is about: seen is the version in
// which the rule sees objects. A rule without a version is about the stored object, whichever version is preferred at
// the moment.
func (s *Served) Hides(gr schema.GroupResource, read, seen, named string) bool {
	return s.Lost(gr, read, seen) || named == "" && s.LostInStorage(gr, read)
}

// Differs reports whether the versions of a custom resource have different schemas.
func (s *Served) Differs(gr schema.GroupResource) bool {
	if s == nil {
		return false
	}
	_, differ := s.shapes[gr]
	return differ
}

// LostInStorage reports whether writing an object in a version may drop stored fields.
func (s *Served) LostInStorage(gr schema.GroupResource, version string) bool {
	if s == nil {
		return false
	}
	shapes, differ := s.shapes[gr]
	return differ && s.Lost(gr, version, shapes.Storage)
}
