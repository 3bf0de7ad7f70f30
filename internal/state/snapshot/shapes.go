package snapshot

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"reflect"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Shapes are those of the versions of a custom resource. Whenever the server reads an object in a version, it drops
// what the schema of the version does not have.
type Shapes struct {
	// UID and Generation are those of the definition.
	UID        types.UID
	Generation int64
	// Storage is the version in which objects are stored.
	Storage string
	// Kept: a webhook converts the versions, or nothing is dropped.
	Kept bool
	// Of is a hash of each version's schema. A missing version may have any shape.
	Of map[string][sha256.Size]byte
	// Scales are the fields of which each version makes a Scale.
	Scales map[string]apiextensions.CustomResourceSubresourceScale
}

// ShapesOf returns the shapes of what a definition defines.
func ShapesOf(d *apiextensions.CustomResourceDefinition) Shapes {
	shapes := Shapes{UID: d.UID, Generation: d.Generation, Kept: converts(d) || d.Spec.PreserveUnknownFields, Of: map[string][sha256.Size]byte{}, Scales: map[string]apiextensions.CustomResourceSubresourceScale{}}
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		if v.Storage {
			shapes.Storage = v.Name
		}
		if v.Served || v.Storage {
			shapes.Of[v.Name] = shapeOf(v)
		}
		if v.Subresources != nil && v.Subresources.Scale != nil {
			shapes.Scales[v.Name] = *v.Subresources.Scale
		}
	}
	return shapes
}

// Equal reports whether both say the same of objects, whatever definition they are of.
func (s Shapes) Equal(o Shapes) bool {
	return s.Storage == o.Storage && s.Kept == o.Kept && maps.Equal(s.Of, o.Of) && reflect.DeepEqual(s.Scales, o.Scales)
}

// differ reports whether a version may lack fields of another one.
func (s Shapes) differ() bool {
	if s.Kept {
		return false
	}
	first := true
	var one [sha256.Size]byte
	for _, shape := range s.Of {
		if !first && shape != one {
			return true
		}
		one, first = shape, false
	}
	return false
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
	shapes, differ := s.differing[gr]
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
	_, differ := s.differing[gr]
	return differ
}

// Shapes are those of a custom resource, and whether it is known.
func (s *Served) Shapes(gr schema.GroupResource) (Shapes, bool) {
	if s == nil {
		return Shapes{}, false
	}
	shapes, known := s.shapes[gr]
	return shapes, known
}

// LostInStorage reports whether writing an object in a version may drop stored fields.
func (s *Served) LostInStorage(gr schema.GroupResource, version string) bool {
	if s == nil {
		return false
	}
	shapes, differ := s.differing[gr]
	return differ && s.Lost(gr, version, shapes.Storage)
}
