package expr

import "github.com/google/cel-go/common/ast"

// rename replaces a variable by another. Loop variables of the old name hide
// it; the caller has made sure that none has the new name.
func rename(e ast.Expr, from, to string) ast.Expr {
	switch e.Kind() {
	case ast.IdentKind:
		switch e.AsIdent() {
		case from, "." + from:
			return factory.NewIdent(0, to)
		}
		return e
	case ast.SelectKind:
		sel := e.AsSelect()
		return factory.NewSelect(0, rename(sel.Operand(), from, to), sel.FieldName())
	case ast.CallKind:
		return renameCall(e.AsCall(), from, to)
	case ast.ListKind:
		l := e.AsList()
		return factory.NewList(0, renameEach(l.Elements(), from, to), l.OptionalIndices())
	case ast.MapKind:
		var entries []ast.EntryExpr
		for _, entry := range e.AsMap().Entries() {
			m := entry.AsMapEntry()
			entries = append(entries, factory.NewMapEntry(0,
				rename(m.Key(), from, to), rename(m.Value(), from, to), m.IsOptional()))
		}
		return factory.NewMap(0, entries)
	case ast.StructKind:
		s := e.AsStruct()
		var fields []ast.EntryExpr
		for _, entry := range s.Fields() {
			sf := entry.AsStructField()
			fields = append(fields, factory.NewStructField(0, sf.Name(), rename(sf.Value(), from, to), sf.IsOptional()))
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
	vars, args := loopVars(call)
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

// bindsName reports whether any loop variable in e has the name.
func bindsName(e ast.Expr, name string) bool {
	found := false
	if e.Kind() == ast.CallKind {
		call := e.AsCall()
		vars, args := loopVars(call)
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
	forChildren(e, func(c ast.Expr) { found = found || bindsName(c, name) })
	return found
}
