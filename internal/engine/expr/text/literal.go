package text

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// maxLiteral bounds what one known value may add to a residual text. For a user with a thousand groups, request.groups
// is shown instead.
const maxLiteral = 1024

var factory = ast.NewExprFactory()

// Literal returns source for a value; false if no source has the same meaning.
func Literal(val ref.Val) (ast.Expr, bool) {
	budget := maxLiteral
	return literal(val, &budget)
}

func literal(val ref.Val, budget *int) (ast.Expr, bool) {
	*budget -= 2
	switch v := val.(type) {
	case types.String:
		*budget -= len(v)
		return factory.NewLiteral(0, v), *budget >= 0 && utf8.ValidString(string(v))
	case types.Bytes:
		*budget -= 4 * len(v)
		return factory.NewLiteral(0, v), *budget >= 0
	case types.Bool, types.Int, types.Uint, types.Null:
		return factory.NewLiteral(0, v), *budget >= 0
	case types.Double:
		return factory.NewLiteral(0, v), !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
	case types.Timestamp:
		return conversion("timestamp", v)
	case types.Duration:
		return conversion("duration", v)
	case traits.Mapper:
		return mapLiteral(v, budget)
	case traits.Lister:
		return listLiteral(v, budget)
	}
	return nil, false
}

func conversion(fn string, v ref.Val) (ast.Expr, bool) {
	s, ok := v.ConvertToType(types.StringType).(types.String)
	if !ok {
		return nil, false
	}
	return factory.NewCall(0, fn, factory.NewLiteral(0, s)), true
}

func listLiteral(l traits.Lister, budget *int) (ast.Expr, bool) {
	var elems []ast.Expr
	for it := l.Iterator(); it.HasNext() == types.True; {
		e, ok := literal(it.Next(), budget)
		if !ok || *budget < 0 {
			return nil, false
		}
		elems = append(elems, e)
	}
	return factory.NewList(0, uniform(elems), nil), true
}

// mapLiteral sorts by key, so equal values give equal text.
func mapLiteral(m traits.Mapper, budget *int) (ast.Expr, bool) {
	var keys []string
	for it := m.Iterator(); it.HasNext() == types.True; {
		key, ok := it.Next().(types.String)
		if !ok || !utf8.ValidString(string(key)) {
			return nil, false
		}
		keys = append(keys, string(key))
		if *budget -= len(key) + 4; *budget < 0 {
			return nil, false
		}
	}
	slices.Sort(keys)
	vals := make([]ast.Expr, len(keys))
	for i, key := range keys {
		e, ok := literal(m.Get(types.String(key)), budget)
		if !ok || *budget < 0 {
			return nil, false
		}
		vals[i] = e
	}
	vals = uniform(vals)
	entries := make([]ast.EntryExpr, len(keys))
	for i, key := range keys {
		entries[i] = factory.NewMapEntry(0, factory.NewLiteral(0, types.String(key)), vals[i], false)
	}
	return factory.NewMap(0, entries), true
}

// uniform wraps elements in dyn() unless they certainly have one type:
// Kubernetes refuses mixed lists and maps.
func uniform(elems []ast.Expr) []ast.Expr {
	for _, e := range elems {
		if shape(e) == "" || shape(e) != shape(elems[0]) {
			wrapped := make([]ast.Expr, len(elems))
			for i, e := range elems {
				wrapped[i] = factory.NewCall(0, "dyn", e)
			}
			return wrapped
		}
	}
	return elems
}

// shape returns the type of a literal; empty if it is not certain.
func shape(e ast.Expr) string {
	switch e.Kind() {
	case ast.LiteralKind:
		return e.AsLiteral().Type().TypeName()
	case ast.ListKind:
		elems := e.AsList().Elements()
		if len(elems) > 0 && elems[0].Kind() == ast.LiteralKind {
			return "list of " + shape(elems[0])
		}
	}
	return ""
}

// StringLiteral returns the text of a string literal; false for other expressions.
func StringLiteral(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	v, ok := e.AsLiteral().(types.String)
	return string(v), ok
}
