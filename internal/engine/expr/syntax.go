package expr

import (
	"github.com/google/cel-go/common/ast"

	"proviso.dev/proviso/internal/engine/expr/text"
)

// These functions expose conditions to code that reasons about them without evaluating them, or translates them to
// another dialect: packages compare and compile.

// Syntax parses an expression and leaves its macros unexpanded. It is bounded like Compile.
func (c *Compiler) Syntax(source string) (ast.Expr, Issues) { return c.parse(source) }

// About writes the syntax of a where in terms of one version: object or
// oldObject.
func About(e ast.Expr, version string) ast.Expr {
	return rename(freeName(e, version), varResource, version)
}

// Binds reports whether any loop variable in the expression has the name.
func Binds(e ast.Expr, name string) bool { return bindsName(e, name) }

// Replace replaces parts of an expression with unexpanded macros, outermost first: f returns the replacement of a part,
// or false to descend into the part. The names of loop variables are not replaced.
func Replace(e ast.Expr, f func(ast.Expr) (ast.Expr, bool)) ast.Expr {
	if other, ok := f(e); ok {
		return other
	}
	if e.Kind() != ast.CallKind {
		return rebuild(e, func(c ast.Expr) ast.Expr { return Replace(c, f) })
	}
	call := e.AsCall()
	vars, args := text.LoopVars(call)
	all := append([]ast.Expr(nil), call.Args()[:len(vars)]...)
	for _, a := range args {
		all = append(all, Replace(a, f))
	}
	if call.IsMemberFunction() {
		return factory.NewMemberCall(0, call.FunctionName(), Replace(call.Target(), f), all...)
	}
	return factory.NewCall(0, call.FunctionName(), all...)
}

// Parts returns the conditions that All has joined, or the condition itself.
func Parts(c Condition) []Condition {
	switch c := c.(type) {
	case nil:
		return nil
	case all:
		var parts []Condition
		for _, p := range c {
			parts = append(parts, Parts(p)...)
		}
		return parts
	case ofEach:
		return Parts(c.Condition)
	}
	return []Condition{c}
}
