package fieldperm

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Changed lists the fields that differ between two objects, except those that never count (FP-7), for callers without a
// schema. Metadata is compared by Kubernetes' schema, everything else by its form: a map entry by entry, a list as one
// value. Null, empty and missing are three different things.
func Changed(old, new map[string]any) ([]Path, error) {
	return changedFields(formless(old), formless(new))
}

// changedFields lists the fields that differ between two objects, in order and without those that never count. old is
// nil for a new object; then every field that is set counts.
func changedFields(old, new *typed.TypedValue) ([]Path, error) {
	w := walker{create: old == nil, keepPaths: true}
	if err := w.run(&node{}, old, new, nil); err != nil {
		return nil, err
	}
	slices.SortFunc(w.paths, Path.compare)
	return w.paths, nil
}

// anything is a value of any form. It is not schemaless: each field inside it counts separately.
const anything = "anything"

var formlessSchema = &schema.Schema{Types: []schema.TypeDef{{Name: anything, Atom: anythingAtom()}}}

func anythingAtom() schema.Atom {
	name, scalar := anything, schema.Untyped
	some := schema.TypeRef{NamedType: &name, Nullable: true}
	return schema.Atom{
		Scalar: &scalar,
		List:   &schema.List{ElementType: some, ElementRelationship: schema.Atomic},
		Map:    &schema.Map{ElementType: some, ElementRelationship: schema.Separable},
	}
}

func formless(object map[string]any) *typed.TypedValue {
	return typed.AsTypedUnvalidated(value.NewValueInterface(object), formlessSchema, formlessSchema.Types[0].Atom.Map.ElementType)
}
