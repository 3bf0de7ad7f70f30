package expr

import (
	"github.com/google/cel-go/common/ast"
)

// What follows shows conditions to those who reason about them without
// evaluating them: package compare.

// Syntax parses an expression and leaves its macros as they are written. It
// is bounded as Compile is.
func (c *Compiler) Syntax(source string) (ast.Expr, Issues) { return c.parse(source) }

// About writes the syntax of a where in terms of one version: object or
// oldObject.
func About(e ast.Expr, version string) ast.Expr {
	return rename(freeName(e, version), varResource, version)
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
