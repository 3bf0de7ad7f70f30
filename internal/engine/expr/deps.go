package expr

import (
	"github.com/google/cel-go/common/ast"

	"proviso.dev/proviso/internal/engine/expr/text"
)

// deps is what an expression refers to outside its own loops.
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
		vars, args := text.LoopVars(call)
		scope := append(inner[:len(inner):len(inner)], vars...)
		for _, a := range args {
			d.walk(a, outer, scope)
		}
	default:
		text.Children(e, func(c ast.Expr) { d.walk(c, outer, inner) })
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
	case varObject, varOldObject, varOptions, varTarget, varOperation, varNamespace, varImpersonated, varResource,
		"." + varObject, "." + varOldObject, "." + varOptions, "." + varTarget, "." + varOperation, "." + varNamespace,
		"." + varImpersonated, "." + varResource:
		d.later = true
	}
}
