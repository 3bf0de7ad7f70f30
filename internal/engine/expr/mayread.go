package expr

import (
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// The variables that hold the object of a request or the target of a connection, and its namespace.
var (
	objectNames = []string{varObject, varOldObject, varResource, varTarget}
	placeNames  = []string{varNamespace}
)

var bareSyntax = sync.OnceValues(func() (*cel.Env, error) { return cel.NewEnv(cel.OptionalTypes()) })

// MayRead reports whether an expression may read a field of the object: it names the field, something in it, or
// something that contains it. An empty name in the field's path stands for every entry. In doubt, an expression may
// read every field.
func MayRead(source string, field []string) bool { return reads{objectNames, field}.in(source) }

// MayReadNamespace is MayRead for a field of the namespace that the object is in.
func MayReadNamespace(source string, field []string) bool { return reads{placeNames, field}.in(source) }

// MayReadCaller reports whether an expression of an admission policy may depend on who the caller is. What else the
// caller may do is not part of that.
func MayReadCaller(source string) bool {
	return reads{[]string{varRequest}, []string{"userInfo"}}.in(source)
}

// reads looks for a field in some variables.
type reads struct{ vars, field []string }

func (r reads) in(source string) bool {
	env, err := bareSyntax()
	if err != nil {
		return true
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return true
	}
	return r.may(parsed.NativeRep().Expr())
}

func (r reads) may(e ast.Expr) bool {
	names, ok := r.from(e)
	return ok && leadTo(names, r.field) || r.anyOf(e)
}

// from returns the path from the object to what an expression reads, as far as it is constant; false if the path does
// not begin with the object.
func (r reads) from(e ast.Expr) (names []string, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		// A leading dot skips loop variables of the same name.
		return nil, slices.Contains(r.vars, strings.TrimPrefix(e.AsIdent(), "."))
	case ast.SelectKind:
		names, ok = r.from(e.AsSelect().Operand())
		return append(names, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			names, ok = r.from(call.Args()[0])
			key := ""
			if arg := call.Args()[1]; arg.Kind() == ast.LiteralKind {
				key, _ = arg.AsLiteral().Value().(string)
			}
			return append(names, key), ok
		}
	}
	return nil, false
}

// leadTo reports whether one path is a prefix of the other. An empty name matches any.
func leadTo(names, field []string) bool {
	for i := range min(len(names), len(field)) {
		if names[i] != field[i] && names[i] != "" && field[i] != "" {
			return false
		}
	}
	return true
}

// anyOf looks at the parts of an expression, except those that only lead to what it reads.
func (r reads) anyOf(e ast.Expr) bool {
	switch e.Kind() {
	case ast.SelectKind:
		operand := e.AsSelect().Operand()
		if _, ok := r.from(operand); ok {
			return r.anyOf(operand)
		}
		return r.may(operand)
	case ast.CallKind:
		call := e.AsCall()
		parts := call.Args()
		if call.IsMemberFunction() {
			parts = append([]ast.Expr{call.Target()}, parts...)
		}
		if _, ok := r.from(e); ok {
			return r.anyOf(parts[0]) || r.may(parts[1])
		}
		return r.some(parts)
	case ast.ListKind:
		return r.some(e.AsList().Elements())
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		return r.some([]ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()})
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			if one := entry.AsMapEntry(); r.may(one.Key()) || r.may(one.Value()) {
				return true
			}
		}
		return false
	case ast.IdentKind, ast.LiteralKind:
		return false
	}
	return true // structs
}

func (r reads) some(parts []ast.Expr) bool {
	for _, part := range parts {
		if r.may(part) {
			return true
		}
	}
	return false
}
