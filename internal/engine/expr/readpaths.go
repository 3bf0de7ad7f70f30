package expr

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"proviso.dev/proviso/internal/engine/expr/text"
)

// ReadPaths returns the fields of the object, stored or new, that an expression names, each once and in order: names of
// fields, and keys of maps. A computed key ends its path. For an expression that cannot be parsed it returns nothing.
func ReadPaths(source string) (all [][]string) {
	env, err := bareSyntax()
	if err != nil {
		return nil
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil
	}
	r := reads{vars: objectNames}
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if path := r.path(e); len(path) > 0 {
			all = append(all, path)
		}
	}))
	slices.SortFunc(all, slices.Compare)
	all = slices.CompactFunc(all, slices.Equal)
	return slices.DeleteFunc(all, func(path []string) bool { return leadsOn(path, all) })
}

// ComparedWith returns the texts with which an expression compares what is at a path of the object, and whether it does
// nothing else with it, beside testing that it is there.
func ComparedWith(source string, path []string) (values []string, only bool) {
	if source == "" {
		return nil, true
	}
	env, err := bareSyntax()
	if err != nil {
		return nil, false
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, false
	}
	r := reads{vars: objectNames}
	is := func(e ast.Expr) bool { return slices.Equal(r.path(e), path) }
	done := map[int64]bool{}
	only = true
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if compared, with := comparison(e); compared != nil && is(compared) {
			values = append(values, with...)
			ast.PreOrderVisit(compared, ast.NewExprVisitor(func(part ast.Expr) { done[part.ID()] = true }))
			return
		}
		tests := isTest(e) || e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.In
		only = only && (done[e.ID()] || tests || !is(e))
	}))
	return values, only
}

// comparison returns what an expression compares with texts, and these: x == "a", "a" != x, x in ["a", "b"].
func comparison(e ast.Expr) (compared ast.Expr, with []string) {
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
		return nil, nil
	}
	left, right := e.AsCall().Args()[0], e.AsCall().Args()[1]
	switch e.AsCall().FunctionName() {
	case operators.Equals, operators.NotEquals:
		if value, ok := text.StringLiteral(right); ok {
			return left, []string{value}
		}
		if value, ok := text.StringLiteral(left); ok {
			return right, []string{value}
		}
	case operators.In:
		if right.Kind() != ast.ListKind {
			return nil, nil
		}
		for _, element := range right.AsList().Elements() {
			value, ok := text.StringLiteral(element)
			if !ok {
				return nil, nil
			}
			with = append(with, value)
		}
		return left, with
	}
	return nil, nil
}

// leadsOn reports whether a path is only a prefix of a longer one.
func leadsOn(path []string, all [][]string) bool {
	return slices.ContainsFunc(all, func(other []string) bool {
		return len(other) > len(path) && slices.Equal(other[:len(path)], path)
	})
}

// path returns the path to what an expression reads, as far as it is constant: resource.a.b, or the key in `"k" in
// resource.m`.
func (r reads) path(e ast.Expr) []string {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.In && len(e.AsCall().Args()) == 2 {
		key, ok := text.StringLiteral(e.AsCall().Args()[0])
		if within := r.path(withoutDefault(e.AsCall().Args()[1])); ok && len(within) > 0 {
			return append(within, key)
		}
		return nil
	}
	names, ok := r.from(e)
	if !ok {
		return nil
	}
	if end := slices.Index(names, ""); end >= 0 {
		names = names[:end]
	}
	return names
}

// withoutDefault returns x for x.orValue({}).
func withoutDefault(e ast.Expr) ast.Expr {
	if e.Kind() == ast.CallKind && e.AsCall().IsMemberFunction() && strings.HasPrefix(e.AsCall().FunctionName(), "or") {
		return withoutDefault(e.AsCall().Target())
	}
	return e
}
