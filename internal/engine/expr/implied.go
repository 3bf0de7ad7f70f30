package expr

import (
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/selectors"
)

// FieldType is the type of a selectable field.
type FieldType uint8

const (
	// StringField is the type of most of them.
	StringField FieldType = iota
	// IntField values are selected by their decimal form.
	IntField
	// BoolField values are selected as "true" and "false".
	BoolField
)

// SelectableField is a field that a resource can be listed by: a built-in
// field selector or one of a CRD's selectableFields. metadata.name and
// metadata.namespace are always selectable and need not be given.
type SelectableField struct {
	// Key is the key in field selectors, such as spec.nodeName.
	Key string
	// Path is the field in the version of the object that conditions see, such as spec.nodeName or .spec.color. Empty
	// means that it equals the key.
	Path string
	// Type is the type of the field.
	Type FieldType
	// Typed is true if the kind is built in: all parents of the field always exist, so only the field itself can be
	// missing.
	Typed bool
}

// implier is a condition that can be implied by selectors.
type implier interface {
	impliedBy(req *Request, fields []SelectableField) bool
}

// Implied reports whether every object that a list or watch with the selectors
// of the request can return meets the condition (CA-16). It may return false
// where the condition is implied, but never true where it is not: what it does
// not understand is not implied.
func Implied(c Condition, req *Request, fields []SelectableField) bool {
	if c == nil || req == nil {
		return false
	}
	if i, ok := c.(implier); ok {
		return i.impliedBy(req, fields)
	}
	if n, ok := c.(Narrower); ok {
		box, err := n.Narrow(req, fields)
		return err == nil && !box.IsNothing() && selectors.Selected(req.LabelSelector, req.FieldSelector).Within(box)
	}
	return c.Decide(req, Allow).Truth() == True
}

func (a all) impliedBy(req *Request, fields []SelectableField) bool {
	for _, c := range a {
		if !Implied(c, req, fields) {
			return false
		}
	}
	return true
}

// impliedBy tries every kind of object that can match the selectors.
//
// If an expression uses an attribute of the object only by comparing it with
// constants, all values that differ from those constants are alike, and one of
// them stands for the rest. If it uses an attribute in another way, the
// selectors must leave only a finite list of values. So finitely many objects
// represent all; the condition is implied if the program is true for each of
// them.
func (p *Program) impliedBy(req *Request, fields []SelectableField) bool {
	if p.kind != Where {
		return p.Decide(req, Allow).Truth() == True
	}
	if p.AimsAt(req) {
		return false // selectors are about objects, not about targets
	}
	folded, ok := p.folded(req)
	if !ok {
		return false
	}
	if b, ok := boolLiteral(folded); ok {
		return bool(b)
	}
	use, ok := attributesOf(folded, req, selectable(fields))
	if !ok {
		return false
	}
	states := make([][]state, len(use))
	for i, a := range use {
		states[i] = a.states(req)
	}
	return p.everyState(req, use, states)
}

func (p *Program) everyState(req *Request, use []*attribute, states [][]state) bool {
	tried, every := 0, true
	err := p.eachWorld(req, use, states, func(_ []state, holds bool) bool {
		tried++
		every = holds
		return holds
	})
	return err == nil && every && tried > 0
}

// selectable adds the fields that every resource has and splits the paths.
func selectable(fields []SelectableField) []selectableField {
	out := []selectableField{
		{key: "metadata.name", path: []string{"metadata", "name"}},
		{key: "metadata.namespace", path: []string{"metadata", "namespace"}},
	}
	for _, f := range fields {
		path := f.Path
		if path == "" {
			path = f.Key
		}
		split := strings.Split(strings.TrimPrefix(path, "."), ".")
		if slices.Contains(split, "") || slices.ContainsFunc(out, func(o selectableField) bool { return o.key == f.Key }) {
			continue
		}
		out = append(out, selectableField{key: f.Key, path: split, typ: f.Type, typed: f.Typed})
	}
	return out
}

type selectableField struct {
	key  string
	path []string
	typ  FieldType
	// typed fields can be missing, but their parents cannot.
	typed bool
}
