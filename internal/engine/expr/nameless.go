package expr

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
)

// TypeNamed is the type of a condition that depends on the name of an object that the request does not name: it is
// evaluated here, since no expression over the object can express `request.name`.
const TypeNamed = "policy.proviso.dev/named"

// OfEach turns a condition on `request.name` into one on the name of each
// object, if a request about objects does not name one. Objects that are
// created, listed or deleted as a collection have names nevertheless, as do the
// objects of a question without a name: such requests must not evade a condition
// by name (PO-20). A caller that cannot supply the objects must not decide by
// the empty name.
func OfEach(c Condition, req *Request) Condition {
	if req == nil || req.Name != "" || req.Resource == "" || !usesName(c) {
		return c
	}
	return ofEach{c}
}

func usesName(c Condition) bool {
	switch c := c.(type) {
	case all:
		for _, part := range c {
			if usesName(part) {
				return true
			}
		}
	case *Program:
		return c.uses.name
	}
	return false
}

var errNoName = errors.New("the object has no name yet")

type ofEach struct{ Condition }

// Type implements Condition.
func (ofEach) Type() string { return TypeNamed }

// Decide implements Condition: nothing is known without the name.
func (c ofEach) Decide(req *Request, effect Effect) Finding { return Undecided(c, req, effect) }

// Evaluate implements Condition. A created object has its name by then, even a generated one; objects of a kind without
// names have the empty one.
func (c ofEach) Evaluate(ctx context.Context, req *Request, effect Effect, data *Data) (bool, error) {
	object, err := data.Object("")
	if err == nil && object == nil {
		object, err = data.OldObject("")
	}
	if err != nil {
		return false, err
	}
	named := *req
	if object != nil {
		m, err := meta.Accessor(object)
		if err != nil {
			return false, err
		}
		if named.Name = m.GetName(); named.Name == "" && m.GetGenerateName() != "" {
			return false, errNoName
		}
	}
	return c.Condition.Evaluate(ctx, &named, effect, data)
}

// Text implements Condition: the condition as written.
func (c ofEach) Text(req *Request, effect Effect) string {
	switch c := c.Condition.(type) {
	case all:
		return joinParts(c.written(req, effect))
	case *Program:
		return c.fallback(req, effect)
	}
	return c.Condition.Text(req, effect)
}
