package expr

import (
	"github.com/google/cel-go/common/ast"
)

// usage is what an expression refers to, found once when it is compiled.
type usage struct {
	request bool // it refers to `request`
	name    bool // it may refer to `request.name`
	where   bool // it may refer to `request.namespace`
	time    bool // it may refer to `request.time`
	action  bool // it may refer to the action: the verb, the resource, the name, the selectors or the operation
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
			u.time = before.time || u.time && e.AsSelect().FieldName() == "time"
			u.action = before.action || u.action && !isAside(e.AsSelect().FieldName())
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
	// The checker writes a leading dot where it had to skip a loop variable of the same name.
	if len(name) > 0 && name[0] == '.' {
		name = name[1:]
	}
	u.place = u.place || name == varNamespace
	switch name {
	case varRequest:
		u.request, u.name, u.where, u.action, u.time = true, true, true, true, true
	case varObject, varOldObject, varOptions, varTarget, varNamespace, varImpersonated, varResource:
		u.later = true
	case varOperation:
		u.later, u.action = true, true
	}
}

// isAside reports whether a field of the request describes the caller or the place, and not the action.
func isAside(field string) bool {
	switch field {
	case "user", "uid", "groups", "extra", "userInfo", "namespace", "time":
		return true
	}
	return false
}

// Looks is what a condition may look at in addition to the object. Where, the namespace of the request, and Time, its
// instant, are parts of the request. Action is the requested action: another part of the request, or the operation.
type Looks struct{ Request, Where, Action, Time, Namespace bool }

// Looker is a condition that knows what it looks at.
type Looker interface {
	Looks() Looks
}

// LooksOf returns what a condition may look at: everything, if the condition is not a Looker.
func LooksOf(c Condition) Looks {
	switch c := c.(type) {
	case nil:
		return Looks{}
	case *Program:
		return Looks{Request: c.uses.request, Where: c.uses.where, Action: c.uses.action, Time: c.uses.time, Namespace: c.uses.place}
	case ofEach:
		return LooksOf(c.Condition)
	case all:
		var out Looks
		for _, part := range c {
			one := LooksOf(part)
			out = Looks{out.Request || one.Request, out.Where || one.Where, out.Action || one.Action, out.Time || one.Time, out.Namespace || one.Namespace}
		}
		return out
	case Looker:
		return c.Looks()
	}
	return Looks{Request: true, Where: true, Action: true, Time: true, Namespace: true}
}
