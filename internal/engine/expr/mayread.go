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

// Field is a field of an object that an expression may read.
type Field struct {
	// Path leads to the field. An empty name stands for every entry.
	Path []string
	// Beside is true for a field beside others that everyone sees, such as one annotation: whether the object has what
	// contains the field reveals nothing.
	Beside bool
}

// MayRead reports whether an expression may read one of some fields of the object: it names the field, something in it,
// or something that contains it. In doubt, an expression may read every field.
func MayRead(source string, fields ...Field) bool { return reads{objectNames, fields}.in(source) }

// MayReadNamespace is MayRead for fields of the namespace that the object is in.
func MayReadNamespace(source string, fields ...Field) bool {
	return reads{placeNames, fields}.in(source)
}

// MayReadCaller reports whether an expression of an admission policy may depend on who the caller is. What else the
// caller may do is not part of that.
func MayReadCaller(source string) bool {
	return reads{[]string{varRequest}, []Field{{Path: []string{"userInfo"}}}}.in(source)
}

// reads looks for fields in some variables.
type reads struct {
	vars   []string
	fields []Field
}

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
	return ok && r.anyAt(names, isTest(e)) || r.anyOf(e)
}

// anyAt reports whether a path leads to one of the fields. If it is only tested, by has, what contains the field counts
// only if that reveals something.
func (r reads) anyAt(names []string, tested bool) bool {
	return slices.ContainsFunc(r.fields, func(f Field) bool {
		return leadTo(names, f.Path) && !(tested && f.Beside && len(names) < len(f.Path))
	})
}

func isTest(e ast.Expr) bool { return e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() }

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
		container, key := entryIn(e.AsCall())
		if container == nil {
			return nil, false
		}
		if names, ok = r.from(container); key == nil {
			return names, ok
		}
		name := ""
		if key.Kind() == ast.LiteralKind {
			name, _ = key.AsLiteral().Value().(string)
		}
		return append(names, name), ok
	}
	return nil, false
}

// orValue is the function that reads an optional value.
const orValue = "orValue"

// entryIn returns the container that a call reads from, and the key that it reads or looks for there; nil if it reads
// otherwise. The key is nil if it reads the whole.
func entryIn(call ast.CallExpr) (container, key ast.Expr) {
	switch args := call.Args(); call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return args[0], args[1]
	case operators.In:
		return args[1], args[0]
	case orValue:
		if call.IsMemberFunction() {
			return call.Target(), nil
		}
	}
	return nil, nil
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
		if container, _ := entryIn(call); container != nil {
			if _, ok := r.from(container); ok {
				rest := slices.DeleteFunc(slices.Clone(parts), func(part ast.Expr) bool { return part == container })
				return r.anyOf(container) || r.some(rest)
			}
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
