package expr

import "github.com/google/cel-go/common/ast"

// Residual text is made from the expression as it was parsed, before macros
// are expanded, because the expansion cannot be read. So this package has to
// know which calls are macros and which of their arguments are loop variables.
// A test compares the table with the macros of the environment.

type macroKey struct {
	name   string
	args   int
	member bool
}

// macroVars is the number of leading arguments that name loop variables.
var macroVars = map[macroKey]int{
	{"has", 1, false}:              0,
	{"all", 2, true}:               1,
	{"all", 3, true}:               2,
	{"exists", 2, true}:            1,
	{"exists", 3, true}:            2,
	{"exists_one", 2, true}:        1,
	{"existsOne", 3, true}:         2,
	{"exists_one", 3, true}:        2,
	{"map", 2, true}:               1,
	{"map", 3, true}:               1,
	{"filter", 2, true}:            1,
	{"transformList", 3, true}:     2,
	{"transformList", 4, true}:     2,
	{"transformMap", 3, true}:      2,
	{"transformMap", 4, true}:      2,
	{"transformMapEntry", 3, true}: 2,
	{"transformMapEntry", 4, true}: 2,
	{"optMap", 2, true}:            1,
	{"optFlatMap", 2, true}:        1,
	{"sortBy", 2, true}:            1,
}

// loopVars returns the loop variables of a call and the arguments that see
// them. For anything but a macro with loop variables it returns nil and all
// the arguments.
func loopVars(call ast.CallExpr) ([]string, []ast.Expr) {
	args := call.Args()
	n := macroVars[macroKey{call.FunctionName(), len(args), call.IsMemberFunction()}]
	vars := make([]string, 0, n)
	for _, a := range args[:n] {
		if a.Kind() != ast.IdentKind {
			return nil, args
		}
		vars = append(vars, a.AsIdent())
	}
	return vars, args[n:]
}

// deps is what an expression refers to outside of its own loops.
type deps struct {
	request bool
	later   bool // a variable of admission
	bound   bool // a loop variable of an enclosing loop
}

func depsOf(e ast.Expr, outer map[string]int) deps {
	var d deps
	d.walk(e, outer, nil)
	return d
}

func (d *deps) walk(e ast.Expr, outer map[string]int, inner []string) {
	switch e.Kind() {
	case ast.IdentKind:
		d.ident(e.AsIdent(), outer, inner)
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			d.walk(call.Target(), outer, inner)
		}
		vars, args := loopVars(call)
		scope := append(inner[:len(inner):len(inner)], vars...)
		for _, a := range args {
			d.walk(a, outer, scope)
		}
	default:
		forChildren(e, func(c ast.Expr) { d.walk(c, outer, inner) })
	}
}

func (d *deps) ident(name string, outer map[string]int, inner []string) {
	for _, v := range inner {
		if v == name {
			return
		}
	}
	if outer[name] > 0 {
		d.bound = true
		return
	}
	switch name {
	case varRequest, "." + varRequest:
		d.request = true
	case varObject, varOldObject, varOptions, varOperation, varNamespace, varImpersonated, varResource,
		"." + varObject, "." + varOldObject, "." + varOptions, "." + varOperation, "." + varNamespace,
		"." + varImpersonated, "." + varResource:
		d.later = true
	}
}

// forChildren calls f for the parts of an expression that is not a call.
func forChildren(e ast.Expr, f func(ast.Expr)) {
	switch e.Kind() {
	case ast.SelectKind:
		f(e.AsSelect().Operand())
	case ast.ListKind:
		for _, el := range e.AsList().Elements() {
			f(el)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			f(entry.AsMapEntry().Key())
			f(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, entry := range e.AsStruct().Fields() {
			f(entry.AsStructField().Value())
		}
	}
}
