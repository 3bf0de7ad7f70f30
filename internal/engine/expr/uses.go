package expr

import (
	"github.com/google/cel-go/common/ast"
)

// usage is what an expression refers to, found once when it is compiled.
type usage struct {
	request bool // it refers to `request`
	name    bool // it may refer to `request.name`
	where   bool // it may refer to `request.namespace`
	place   bool // it refers to `namespaceObject`
	later   bool // it refers to something that only admission knows
	selects int  // number of field selections and calls
}

// usageOf walks the checked expression. Loop variables hide the variables of
// the same name.
func usageOf(e ast.Expr) usage {
	var u usage
	u.walk(e, nil)
	return u
}

func (u *usage) walk(e ast.Expr, bound []string) {
	switch e.Kind() {
	case ast.IdentKind:
		u.ident(e.AsIdent(), bound)
	case ast.SelectKind:
		u.selects++
		before := *u
		u.walk(e.AsSelect().Operand(), bound)
		if of := e.AsSelect().Operand(); of.Kind() == ast.IdentKind { // one field of the request
			u.name = before.name || u.name && e.AsSelect().FieldName() == "name"
			u.where = before.where || u.where && e.AsSelect().FieldName() == "namespace"
		}
	case ast.CallKind:
		call := e.AsCall()
		u.selects++
		if call.IsMemberFunction() {
			u.walk(call.Target(), bound)
		}
		for _, arg := range call.Args() {
			u.walk(arg, bound)
		}
	case ast.ListKind:
		for _, el := range e.AsList().Elements() {
			u.walk(el, bound)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			u.walk(entry.AsMapEntry().Key(), bound)
			u.walk(entry.AsMapEntry().Value(), bound)
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			u.walk(f.AsStructField().Value(), bound)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		u.walk(c.IterRange(), bound)
		u.walk(c.AccuInit(), bound)
		inner := append(bound[:len(bound):len(bound)], c.IterVar(), c.AccuVar())
		if c.HasIterVar2() {
			inner = append(inner, c.IterVar2())
		}
		u.walk(c.LoopCondition(), inner)
		u.walk(c.LoopStep(), inner)
		u.walk(c.Result(), inner)
	}
}

func (u *usage) ident(name string, bound []string) {
	for _, b := range bound {
		if b == name {
			return
		}
	}
	// The checker writes a leading dot where a loop variable of the same name
	// had to be stepped over.
	if len(name) > 0 && name[0] == '.' {
		name = name[1:]
	}
	u.place = u.place || name == varNamespace
	switch name {
	case varRequest:
		u.request, u.name, u.where = true, true, true
	case varObject, varOldObject, varOptions, varOperation, varNamespace, varImpersonated, varResource:
		u.later = true
	}
}

// Looks is what a condition may look at beside the object. Where is the
// namespace of the request, which is a part of it.
type Looks struct{ Request, Where, Namespace bool }

// Looker is a condition that says so by itself.
type Looker interface {
	Looks() Looks
}

// LooksOf says what a condition may look at. Of one that does not say, it is
// everything.
func LooksOf(c Condition) Looks {
	switch c := c.(type) {
	case nil:
		return Looks{}
	case *Program:
		return Looks{Request: c.uses.request, Where: c.uses.where, Namespace: c.uses.place}
	case ofEach:
		return LooksOf(c.Condition)
	case all:
		var out Looks
		for _, part := range c {
			one := LooksOf(part)
			out = Looks{out.Request || one.Request, out.Where || one.Where, out.Namespace || one.Namespace}
		}
		return out
	case Looker:
		return c.Looks()
	}
	return Looks{Request: true, Where: true, Namespace: true}
}
