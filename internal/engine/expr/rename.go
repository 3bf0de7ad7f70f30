package expr

import (
	"github.com/google/cel-go/common/ast"

	"proviso.dev/proviso/internal/engine/expr/text"
)

// rename replaces a variable by another. Loop variables of the old name shadow it; the caller ensures that none has the
// new name.
func rename(e ast.Expr, from, to string) ast.Expr {
	switch e.Kind() {
	case ast.IdentKind:
		switch e.AsIdent() {
		case from, "." + from:
			return factory.NewIdent(0, to)
		}
		return e
	case ast.CallKind:
		return renameCall(e.AsCall(), from, to)
	}
	return rebuild(e, func(c ast.Expr) ast.Expr { return rename(c, from, to) })
}

// rebuild applies f to the parts of an expression that is not a call.
func rebuild(e ast.Expr, f func(ast.Expr) ast.Expr) ast.Expr {
	switch e.Kind() {
	case ast.SelectKind:
		sel := e.AsSelect()
		return factory.NewSelect(0, f(sel.Operand()), sel.FieldName())
	case ast.ListKind:
		l := e.AsList()
		elems := make([]ast.Expr, 0, l.Size())
		for _, el := range l.Elements() {
			elems = append(elems, f(el))
		}
		return factory.NewList(0, elems, l.OptionalIndices())
	case ast.MapKind:
		var entries []ast.EntryExpr
		for _, entry := range e.AsMap().Entries() {
			m := entry.AsMapEntry()
			entries = append(entries, factory.NewMapEntry(0, f(m.Key()), f(m.Value()), m.IsOptional()))
		}
		return factory.NewMap(0, entries)
	case ast.StructKind:
		s := e.AsStruct()
		var fields []ast.EntryExpr
		for _, entry := range s.Fields() {
			sf := entry.AsStructField()
			fields = append(fields, factory.NewStructField(0, sf.Name(), f(sf.Value()), sf.IsOptional()))
		}
		return factory.NewStruct(0, s.TypeName(), fields)
	}
	return e
}

func renameEach(es []ast.Expr, from, to string) []ast.Expr {
	out := make([]ast.Expr, len(es))
	for i, e := range es {
		out[i] = rename(e, from, to)
	}
	return out
}

func renameCall(call ast.CallExpr, from, to string) ast.Expr {
	vars, args := text.LoopVars(call)
	all := append([]ast.Expr(nil), call.Args()[:len(vars)]...)
	hidden := false
	for _, v := range vars {
		hidden = hidden || v == from
	}
	if hidden {
		all = append(all, args...)
	} else {
		all = append(all, renameEach(args, from, to)...)
	}
	if call.IsMemberFunction() {
		return factory.NewMemberCall(0, call.FunctionName(), rename(call.Target(), from, to), all...)
	}
	return factory.NewCall(0, call.FunctionName(), all...)
}

// freeName returns e with fresh names for loop variables of the given name, so e can use the name for something else.
func freeName(e ast.Expr, name string) ast.Expr {
	if !bindsName(e, name) {
		return e
	}
	fresh := name + "_"
	for bindsName(e, fresh) {
		fresh += "_"
	}
	return rebind(e, name, fresh)
}

// rebind renames the loop variables called from.
func rebind(e ast.Expr, from, to string) ast.Expr {
	if e.Kind() != ast.CallKind {
		return rebuild(e, func(c ast.Expr) ast.Expr { return rebind(c, from, to) })
	}
	call := e.AsCall()
	vars, args := text.LoopVars(call)
	all := make([]ast.Expr, 0, len(call.Args()))
	hit := false
	for i, v := range vars {
		if v == from {
			hit = true
			all = append(all, factory.NewIdent(0, to))
		} else {
			all = append(all, call.Args()[i])
		}
	}
	for _, a := range args {
		a = rebind(a, from, to)
		if hit {
			a = rename(a, from, to)
		}
		all = append(all, a)
	}
	if call.IsMemberFunction() {
		return factory.NewMemberCall(0, call.FunctionName(), rebind(call.Target(), from, to), all...)
	}
	return factory.NewCall(0, call.FunctionName(), all...)
}

// bindsName reports whether any loop variable in e has the name.
func bindsName(e ast.Expr, name string) bool {
	found := false
	if e.Kind() == ast.CallKind {
		call := e.AsCall()
		vars, args := text.LoopVars(call)
		for _, v := range vars {
			found = found || v == name
		}
		if call.IsMemberFunction() {
			found = found || bindsName(call.Target(), name)
		}
		for _, a := range args {
			found = found || bindsName(a, name)
		}
		return found
	}
	text.Children(e, func(c ast.Expr) { found = found || bindsName(c, name) })
	return found
}
