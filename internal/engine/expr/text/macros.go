package text

import "github.com/google/cel-go/common/ast"

// Residual text is generated from the parsed expression before macros are
// expanded, because people cannot read the expansion. So this package has to
// know which calls are macros and which of their arguments are loop variables.
// A test compares the table with the macros of the environment.

// Macro identifies a macro among calls of the same name.
type Macro struct {
	Name   string
	Args   int
	Member bool
}

// Macros is the number of leading arguments that name loop variables.
var Macros = map[Macro]int{
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

func macroOf(call ast.CallExpr) Macro {
	return Macro{call.FunctionName(), len(call.Args()), call.IsMemberFunction()}
}

// IsMacro reports whether a call is expanded before it is checked.
func IsMacro(call ast.CallExpr) bool {
	_, known := Macros[macroOf(call)]
	return known
}

// LoopVars returns the loop variables of a call and the arguments that see
// them. For anything but a macro with loop variables it returns nil and all
// the arguments.
func LoopVars(call ast.CallExpr) ([]string, []ast.Expr) {
	args := call.Args()
	n := Macros[macroOf(call)]
	vars := make([]string, 0, n)
	for _, a := range args[:n] {
		if a.Kind() != ast.IdentKind {
			return nil, args
		}
		vars = append(vars, a.AsIdent())
	}
	return vars, args[n:]
}

// Children calls f for the parts of an expression that is not a call.
func Children(e ast.Expr, f func(ast.Expr)) {
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
