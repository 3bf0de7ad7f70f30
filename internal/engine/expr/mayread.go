package expr

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// objectNames are the variables that hold the object of a request.
var objectNames = map[string]bool{"object": true, "oldObject": true, "resource": true}

var bareSyntax = sync.OnceValues(func() (*cel.Env, error) { return cel.NewEnv(cel.OptionalTypes()) })

// MayRead reports whether an expression may read a field of the object: it names the field, something in it, or
// something that it is in. An empty name of the field stands for every entry. An expression of which that cannot be
// told may read every field.
func MayRead(source string, field []string) bool {
	env, err := bareSyntax()
	if err != nil {
		return true
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return true
	}
	return mayRead(parsed.NativeRep().Expr(), field)
}

func mayRead(e ast.Expr, field []string) bool {
	if names, ok := readFrom(e); ok {
		return leadTo(names, field) || anyOf(e, field)
	}
	return anyOf(e, field)
}

// readFrom is the way from the object to what an expression reads, as far as it is constant; false if it does not begin
// with the object.
func readFrom(e ast.Expr) (names []string, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return nil, objectNames[e.AsIdent()]
	case ast.SelectKind:
		names, ok = readFrom(e.AsSelect().Operand())
		return append(names, e.AsSelect().FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			names, ok = readFrom(call.Args()[0])
			key := ""
			if arg := call.Args()[1]; arg.Kind() == ast.LiteralKind {
				key, _ = arg.AsLiteral().Value().(string)
			}
			return append(names, key), ok
		}
	}
	return nil, false
}

// leadTo reports whether one way is the beginning of the other. An empty name is any.
func leadTo(names, field []string) bool {
	for i := range min(len(names), len(field)) {
		if names[i] != field[i] && names[i] != "" && field[i] != "" {
			return false
		}
	}
	return true
}

// anyOf looks at the parts of an expression, except those that only lead to what it reads.
func anyOf(e ast.Expr, field []string) bool {
	switch e.Kind() {
	case ast.SelectKind:
		operand := e.AsSelect().Operand()
		if _, ok := readFrom(operand); ok {
			return anyOf(operand, field)
		}
		return mayRead(operand, field)
	case ast.CallKind:
		call := e.AsCall()
		parts := call.Args()
		if call.IsMemberFunction() {
			parts = append([]ast.Expr{call.Target()}, parts...)
		}
		if _, ok := readFrom(e); ok {
			return anyOf(parts[0], field) || mayRead(parts[1], field)
		}
		return someMayRead(parts, field)
	case ast.ListKind:
		return someMayRead(e.AsList().Elements(), field)
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		return someMayRead([]ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()}, field)
	case ast.IdentKind, ast.LiteralKind:
		return false
	}
	return true // maps and structs
}

func someMayRead(parts []ast.Expr, field []string) bool {
	for _, part := range parts {
		if mayRead(part, field) {
			return true
		}
	}
	return false
}
