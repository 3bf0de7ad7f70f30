package fieldperm

import (
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// Names that structured-merge-diff gives to types without a schema.
const (
	deducedType = "__untyped_deduced_"
	untypedType = "__untyped_atomic_"
)

// isSchemaless reports whether nothing is known about the inside of a value; then it counts as one field.
func isSchemaless(tr schema.TypeRef, atom schema.Atom) bool {
	return isUntyped(tr) || atom.Map != nil && len(atom.Map.Fields) == 0 && isUntyped(atom.Map.ElementType)
}

func isUntyped(tr schema.TypeRef) bool {
	return tr.NamedType != nil && (*tr.NamedType == deducedType || *tr.NamedType == untypedType)
}

// schemalessObject returns the schema of an object without one: Kubernetes knows its metadata, and each of its other
// fields is one value.
func schemalessObject() (*schema.Schema, schema.TypeRef) {
	return &schema.Schema{}, inlineMap(&schema.Map{
		Fields: []schema.StructField{{Name: "metadata", Type: objectMeta()}},
	})
}

// standInType returns the type of a body that is not of the resource's own kind, as far as permissions need it, or nil.
// Not every source of schemas has these kinds.
func standInType(target Target) *schema.TypeRef {
	var fields []schema.StructField
	switch {
	case formOf(target) == scaleForm:
		number := scalar()
		fields = []schema.StructField{
			{Name: "spec", Type: inlineMap(&schema.Map{Fields: []schema.StructField{{Name: "replicas", Type: number}}})},
			{Name: "status", Type: inlineMap(&schema.Map{Fields: []schema.StructField{{Name: "replicas", Type: number}, {Name: "selector", Type: number}}})},
		}
	case formOf(target) == bindingForm, target.Resource == bindings:
		fields = []schema.StructField{{Name: "target"}}
	default:
		return nil
	}
	tr := inlineMap(&schema.Map{Fields: append(fields, schema.StructField{Name: "metadata", Type: objectMeta()})})
	return &tr
}

func scalar() schema.TypeRef {
	untyped := schema.Untyped
	return schema.TypeRef{Inlined: schema.Atom{Scalar: &untyped}}
}

// metadataType replaces the type of an object's metadata where a CRD's schema says only that it is an object.
func (w *walker) metadataType(tr schema.TypeRef) schema.TypeRef {
	if atom, ok := w.schema.Resolve(tr); ok && !isSchemaless(tr, atom) && (atom.Map == nil || len(atom.Map.Fields) > 0) {
		return tr
	}
	return objectMeta()
}

// objectMeta returns the shape of metadata as far as permissions need it.
func objectMeta() schema.TypeRef {
	text := scalar()
	texts := inlineMap(&schema.Map{ElementType: text})
	owner := &schema.Map{}
	for _, name := range []string{"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"} {
		owner.Fields = append(owner.Fields, schema.StructField{Name: name, Type: text})
	}
	list := func(element schema.TypeRef, keys ...string) schema.TypeRef {
		return schema.TypeRef{Inlined: schema.Atom{List: &schema.List{
			ElementType: element, ElementRelationship: schema.Associative, Keys: keys,
		}}}
	}
	return inlineMap(&schema.Map{
		Fields: []schema.StructField{
			{Name: "labels", Type: texts},
			{Name: "annotations", Type: texts},
			{Name: "finalizers", Type: list(text)},
			{Name: "ownerReferences", Type: list(inlineMap(owner), "uid")},
		},
		ElementType: text,
	})
}

func inlineMap(m *schema.Map) schema.TypeRef {
	return schema.TypeRef{Inlined: schema.Atom{Map: m}}
}
