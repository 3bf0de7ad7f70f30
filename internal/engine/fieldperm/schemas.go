package fieldperm

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Converter builds the values that Decide compares. managedfields.TypeConverter is one; Schemas is another, which does
// not validate an object again that the server has validated.
type Converter interface {
	ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error)
}

// Schemas are the types of a set of OpenAPI definitions by kind. It is safe for concurrent use.
type Schemas struct {
	types map[schema.GroupVersionKind]typed.ParseableType
	// other builds the values of kinds that have no type here; if nil, they are schemaless.
	other Converter
}

// SchemasBy returns schemas that leave all kinds to another converter.
func SchemasBy(other Converter) *Schemas { return &Schemas{other: other} }

// NewSchemas converts OpenAPI definitions. preserveUnknown is the CRD's preserveUnknownFields.
func NewSchemas(definitions map[string]*spec.Schema, preserveUnknown bool) (*Schemas, error) {
	converted, err := schemaconv.ToSchemaFromOpenAPI(definitions, preserveUnknown)
	if err != nil {
		return nil, fmt.Errorf("schemas cannot be converted: %w", err)
	}
	parser := &typed.Parser{}
	converted.CopyInto(&parser.Schema)
	s := &Schemas{types: map[schema.GroupVersionKind]typed.ParseableType{}}
	for name, definition := range definitions {
		for _, gvk := range kindsOf(definition) {
			s.types[gvk] = parser.Type(name)
		}
	}
	return s, nil
}

// kindsOf reads the extension that lists the kinds of a definition.
func kindsOf(definition *spec.Schema) []schema.GroupVersionKind {
	list, _ := definition.Extensions["x-kubernetes-group-version-kind"].([]interface{})
	var all []schema.GroupVersionKind
	for _, raw := range list {
		text := func(name string) string {
			s, _ := fieldOf(raw, name).(string)
			return s
		}
		if gvk := (schema.GroupVersionKind{Group: text("group"), Version: text("version"), Kind: text("kind")}); gvk.Kind != "" {
			all = append(all, gvk)
		}
	}
	return all
}

// Type returns the type of a kind.
func (s *Schemas) Type(gvk schema.GroupVersionKind) (typed.ParseableType, bool) {
	t, ok := s.types[gvk]
	return t, ok
}

// ObjectToTyped builds a value from an object whose kind is set. A kind without a schema is schemaless.
func (s *Schemas) ObjectToTyped(obj runtime.Object, _ ...typed.ValidationOptions) (*typed.TypedValue, error) {
	t, ok := s.types[obj.GetObjectKind().GroupVersionKind()]
	if !ok && s.other != nil {
		return s.other.ObjectToTyped(obj)
	}
	if !ok {
		t = typed.DeducedParseableType
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return typed.AsTypedUnvalidated(value.NewValueInterface(u.Object), t.Schema, t.TypeRef), nil
	}
	v, err := value.NewValueReflect(obj)
	if err != nil {
		return nil, fmt.Errorf("object of type %T cannot be examined: %w", obj, err)
	}
	return typed.AsTypedUnvalidated(v, t.Schema, t.TypeRef), nil
}
