package fieldperm

import (
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"proviso.dev/proviso/internal/platform/editdistance"
)

// CheckPath reports whether a kind of object has a field. The error names the first part of the path that the schema
// does not have and what to write instead. Inside a value without a schema, every path is accepted.
func CheckPath(p Path, t typed.ParseableType) error {
	w := walker{schema: t.Schema}
	tr := t.TypeRef
	for i, e := range p {
		at := p[:i]
		atom, ok := t.Schema.Resolve(tr)
		if !ok {
			return fmt.Errorf("field %s has no type in the schema", at)
		}
		if i == 1 && p[0] == Field("metadata") {
			tr = w.metadataType(tr)
			atom, _ = t.Schema.Resolve(tr)
		}
		if isSchemaless(tr, atom) {
			return nil
		}
		next, err := descend(at, e, atom)
		if err != nil {
			return err
		}
		tr = next
	}
	return nil
}

func descend(at Path, e Element, atom schema.Atom) (schema.TypeRef, error) {
	switch {
	case e.Bracket && atom.List != nil:
		return atom.List.ElementType, nil
	case atom.Map != nil && len(atom.Map.Fields) > 0:
		if field, ok := atom.Map.FindField(e.Name); ok && !e.Bracket {
			return field.Type, nil
		}
		if !isEmpty(atom.Map.ElementType) {
			return atom.Map.ElementType, nil // the schema preserves unknown fields
		}
		if e.Bracket {
			return schema.TypeRef{}, fmt.Errorf("field %s is an object: name one of its fields with a dot instead of brackets", at)
		}
		return schema.TypeRef{}, fmt.Errorf("field %s%s is not in the schema%s", at, Path{e}, suggestion(at, e.Name, atom.Map))
	case atom.Map != nil && e.Bracket:
		return atom.Map.ElementType, nil
	case atom.Map != nil:
		return schema.TypeRef{}, fmt.Errorf("field %s is a map: write its key in brackets, %s%s", at, at, Path{Key(e.Name)})
	case atom.List != nil:
		return schema.TypeRef{}, fmt.Errorf("field %s is a list: write brackets before %s, such as %s[]%s", at, e.Name, at, Path{e})
	}
	return schema.TypeRef{}, fmt.Errorf("field %s is a single value: nothing lies below it", at)
}

func isEmpty(tr schema.TypeRef) bool { return tr.NamedType == nil && tr.Inlined == schema.Atom{} }

// suggestion names the field that was probably meant.
func suggestion(at Path, name string, m *schema.Map) string {
	best, distance := "", max(len(name)/3, 1)+1
	for _, f := range m.Fields {
		if d := editdistance.Distance(name, f.Name); d < distance {
			best, distance = f.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %s%s?", at, Path{Field(best)})
}

// ListKeys returns the fields that identify the elements of a list; none if the schema does not name any.
func ListKeys(p Path, t typed.ParseableType) []string {
	w := walker{schema: t.Schema}
	tr := t.TypeRef
	for i, e := range p {
		atom, ok := t.Schema.Resolve(tr)
		if !ok {
			return nil
		}
		if i == 1 && p[0] == Field("metadata") {
			tr = w.metadataType(tr)
			atom, _ = t.Schema.Resolve(tr)
		}
		next, err := descend(p[:i], e, atom)
		if err != nil || isSchemaless(tr, atom) {
			return nil
		}
		tr = next
	}
	if atom, ok := t.Schema.Resolve(tr); ok && atom.List != nil && atom.List.ElementRelationship == schema.Associative {
		return atom.List.Keys
	}
	return nil
}
