package expr

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"proviso.dev/proviso/internal/engine/expr/text"
)

const (
	// maxValues bounds how many parts of a condition are shown, and maxValue the length of each value.
	maxValues = 64
	maxValue  = 256
)

// PartValue is a part of a condition with its value.
type PartValue struct {
	// Depth is how deep the part is nested; the whole has 0.
	Depth int
	// Text is the source of the part.
	Text string
	// Value is its value as source, or a description if that would be too long.
	Value string
	// Err is set if it cannot be evaluated.
	Err error
}

// Values evaluates every part of what remains of a condition, for people: no
// decision is made from it. A part is listed before its own parts. Parts inside
// loops are not listed, since they have many values. All parts together cost at
// most as much as one evaluation may.
//
// The namespace is read by the server and not told by the caller, so that
// only truths about it are shown.
func (r Residual) Values(ctx context.Context, data *Data) []PartValue {
	if ctx == nil || data == nil {
		return nil
	}
	var v valuer
	for _, c := range Parts(r.cond) {
		p, ok := c.(*Program)
		if !ok || p.kind.ofField() || r.req == nil {
			continue
		}
		text := p.Text(r.req, r.effect)
		parsed, issues := p.compiler.parse(text)
		if issues != nil {
			continue
		}
		v.c, v.left = p.compiler, p.compiler.callLimit
		v.a = activation{req: r.req, data: data, version: p.apiVersion}
		v.visit(ctx, parsed, 0)
	}
	return v.out
}

type valuer struct {
	c    *Compiler
	a    activation
	left uint64
	out  []PartValue
}

// visit lists e and its parts.
func (v *valuer) visit(ctx context.Context, e ast.Expr, depth int) {
	switch e.Kind() {
	case ast.LiteralKind, ast.IdentKind:
		return
	case ast.SelectKind:
		v.show(ctx, e, depth) // the parts of a path add nothing to its value
		return
	case ast.CallKind:
	default:
		text.Children(e, func(c ast.Expr) { v.visit(ctx, c, depth) })
		return
	}
	call := e.AsCall()
	if optional[call.FunctionName()] {
		v.visitOptional(ctx, e, depth)
		return
	}
	if !v.show(ctx, e, depth) {
		return
	}
	vars, args := text.LoopVars(call)
	switch {
	case len(vars) > 0:
		args = nil
	case call.FunctionName() == "has" && !call.IsMemberFunction():
		return
	case call.FunctionName() == operators.Index && len(args) == 2:
		args = args[1:] // a path, too
	}
	if call.IsMemberFunction() {
		v.visit(ctx, call.Target(), depth+1)
	}
	for _, a := range args {
		v.visit(ctx, a, depth+1)
	}
}

// optional are the steps of a path whose fields may be missing. Only the end of the path has a value that means
// something to people.
var optional = map[string]bool{operators.OptSelect: true, operators.OptIndex: true, "orValue": true, "value": true, "hasValue": true, "or": true}

// visitOptional lists a path with optional steps as one part.
func (v *valuer) visitOptional(ctx context.Context, e ast.Expr, depth int) {
	if name := e.AsCall().FunctionName(); name != operators.OptSelect && name != operators.OptIndex && name != "or" {
		v.show(ctx, e, depth)
	}
}

// show evaluates one part and reports whether there is room for more.
func (v *valuer) show(ctx context.Context, e ast.Expr, depth int) bool {
	if len(v.out) >= maxValues || v.left == 0 || ctx.Err() != nil {
		return false
	}
	part := PartValue{Depth: depth, Text: cutAt(text.Source(e), maxValue*2)}
	val, err := v.eval(ctx, text.Source(e))
	_, isBool := val.(types.Bool)
	switch {
	case err != nil:
		part.Err = err
	case mentions(e, varNamespace) && !isBool:
		part.Value = "(not shown: only truths about the namespace are)"
	default:
		part.Value = valueText(val)
	}
	v.out = append(v.out, part)
	return true
}

func (v *valuer) eval(ctx context.Context, source string) (ref.Val, error) {
	env := v.c.envs[When].StoredExpressionsEnv()
	checked, iss := env.Compile(source)
	if failedIssues(iss) {
		return nil, iss.Err()
	}
	s, err := v.c.planners[When].stored.steps(env, checked)
	if err != nil {
		return nil, err
	}
	a := v.a
	a.limit = v.left
	val, cost, err := s.eval(ctx, &a)
	v.left -= min(v.left, max(cost, 1))
	if err != nil {
		return nil, classify(ctx, err, a.loadErr)
	}
	if types.IsUnknownOrError(val) {
		return nil, fmt.Errorf("it has no value")
	}
	return val, nil
}

// valueText returns a value as source, or in words if that is too long.
func valueText(val ref.Val) string {
	if lit, ok := text.Literal(val); ok {
		if text := text.Source(lit); len(text) <= maxValue {
			return text
		}
	}
	switch v := val.(type) {
	case types.String:
		return cutAt(text.Source(factory.NewLiteral(0, types.String(cutAt(string(v), maxValue)))), maxValue*2)
	case traits.Mapper:
		return fmt.Sprintf("a map with %v entries", v.Size())
	case traits.Lister:
		return fmt.Sprintf("a list with %v elements", v.Size())
	}
	return "a value of type " + val.Type().TypeName()
}

// cutAt shortens text to about so many bytes.
func cutAt(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// mentions reports whether a variable is named anywhere in e.
func mentions(e ast.Expr, name string) bool {
	found := e.Kind() == ast.IdentKind && slices.Contains([]string{name, "." + name}, e.AsIdent())
	below := func(c ast.Expr) { found = found || mentions(c, name) }
	if e.Kind() != ast.CallKind {
		text.Children(e, below)
		return found
	}
	call := e.AsCall()
	if call.IsMemberFunction() {
		below(call.Target())
	}
	for _, a := range call.Args() {
		below(a)
	}
	return found
}
