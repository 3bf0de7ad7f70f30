package compare

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"proviso.dev/proviso/internal/engine/expr/text"
)

// read records what an atom of the fragment does with the paths that it reads; false if the atom is not in the
// fragment.
func (r *reader) read(a *atom, e ast.Expr, in scope) bool {
	if t, ok := r.term(e, in); ok { // a value that is true or false
		return r.reads(a, t, true, false)
	}
	if e.Kind() != ast.CallKind {
		return false
	}
	call := e.AsCall()
	args := call.Args()
	switch fn := call.FunctionName(); fn {
	case "has", "hasValue":
		operand := call.Target()
		if fn == "has" && len(args) == 1 {
			operand = args[0]
		}
		t, ok := r.term(operand, in)
		if !ok || t.split != nil || t.at.parent == nil {
			return false
		}
		a.reads = append(a.reads, t.at)
		return true
	case operators.Equals, operators.NotEquals:
		return r.equality(a, args[0], args[1], in)
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return r.comparison(a, args[0], args[1], in) || r.comparison(a, args[1], args[0], in)
	case operators.In:
		return r.membership(a, args[0], args[1], in)
	case "startsWith", "endsWith", "contains":
		if !call.IsMemberFunction() || len(args) != 1 {
			return false
		}
		return r.fragmentOf(a, call, in)
	case "all", "exists":
		if !call.IsMemberFunction() || len(args) != 2 || in != nil {
			return false
		}
		return r.loop(a, call)
	}
	return false
}

// reads notes a path whose value is compared with constants.
func (r *reader) reads(a *atom, t term, values ...any) bool {
	a.reads = append(a.reads, t.at)
	if t.split != nil {
		t.at.whole = true
		t.at.splits = append(t.at.splits, *t.split)
		t.at.constant = append(t.at.constant, values...)
		return true
	}
	t.at.compared(append(values, t.defaults...)...)
	return true
}

func (r *reader) equality(a *atom, left, right ast.Expr, in scope) bool {
	if r.comparedWith(a, left, right, in) || r.comparedWith(a, right, left, in) {
		return true
	}
	l, ok := r.term(left, in)
	if !ok {
		return false
	}
	o, ok := r.term(right, in)
	if !ok || in != nil || l.at == o.at {
		return false
	}
	r.reads(a, l)
	r.reads(a, o)
	l.at.equals = append(l.at.equals, o.at)
	o.at.equals = append(o.at.equals, l.at)
	return true
}

// comparedWith is the equality of a path, or its size, and a constant.
func (r *reader) comparedWith(a *atom, path, value ast.Expr, in scope) bool {
	c, ok := r.constant(value)
	if !ok {
		return false
	}
	if t, ok := r.size(path, in); ok {
		return r.sized(a, t, c)
	}
	t, ok := r.term(path, in)
	if !ok {
		return false
	}
	if c == nil && t.split == nil && empties(t.defaults) {
		a.reads = append(a.reads, t.at) // what is in it does not matter
		return true
	}
	return r.reads(a, t, c)
}

// size is the path of size(path) and path.size().
func (r *reader) size(e ast.Expr, in scope) (term, bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != "size" {
		return term{}, false
	}
	call := e.AsCall()
	of := call.Target()
	if !call.IsMemberFunction() && len(call.Args()) == 1 {
		of = call.Args()[0]
	}
	t, ok := r.term(of, in)
	return t, ok && t.split == nil
}

func (r *reader) sized(a *atom, t term, c any) bool {
	n, ok := c.(int64)
	if !ok || n > maxSize {
		return false
	}
	a.reads = append(a.reads, t.at)
	t.at.whole = true
	t.at.sizes = append(t.at.sizes, n)
	if len(t.defaults) > 0 {
		t.at.compared(t.defaults...)
	}
	return true
}

// maxSize bounds the lists and texts that are made.
const maxSize = 64

func (r *reader) comparison(a *atom, path, value ast.Expr, in scope) bool {
	c, ok := r.constant(value)
	if !ok {
		return false
	}
	if t, ok := r.size(path, in); ok {
		return r.sized(a, t, c)
	}
	t, ok := r.term(path, in)
	if !ok || t.split != nil {
		return false
	}
	switch c.(type) {
	case int64, float64, string:
	default:
		return false
	}
	t.at.ordered = true
	return r.reads(a, t, c)
}

func (r *reader) membership(a *atom, member, container ast.Expr, in scope) bool {
	if list, ok := r.constant(container); ok {
		values, isList := list.([]any)
		t, isTerm := r.term(member, in)
		return isList && isTerm && r.reads(a, t, values...)
	}
	t, ok := r.term(container, in)
	c, isConstant := r.constant(member)
	if !ok || !isConstant || t.split != nil || !empties(t.defaults) {
		return false
	}
	if t.at.shape == nil {
		a.reads = append(a.reads, t.at) // nothing is there
		return true
	}
	name, isName := c.(string)
	switch t.at.shape.Type {
	case Map, Object:
		if !isName {
			return false
		}
		a.reads = append(a.reads, t.at.sub(name))
		return true
	case List:
		if in != nil {
			return false // that is a loop in a loop
		}
		a.reads = append(a.reads, t.at)
		t.at.elements().compared(c)
		t.at.loops = append(t.at.loops, a)
		t.at.members = append(t.at.members, c)
		return true
	}
	return false
}

// fragmentOf is a prefix, suffix or part of a text.
func (r *reader) fragmentOf(a *atom, call ast.CallExpr, in scope) bool {
	t, ok := r.term(call.Target(), in)
	c, _ := r.constant(call.Args()[0])
	text, isText := c.(string)
	if !ok || !isText || t.split != nil {
		return false
	}
	r.reads(a, t)
	switch call.FunctionName() {
	case "startsWith":
		t.at.prefixes = append(t.at.prefixes, text)
	case "endsWith":
		t.at.suffixes = append(t.at.suffixes, text)
	default:
		t.at.parts = append(t.at.parts, text)
	}
	return true
}

// loop is all and exists over the elements of a path, one level deep.
func (r *reader) loop(a *atom, call ast.CallExpr) bool {
	t, ok := r.term(call.Target(), nil)
	vars, rest := text.LoopVars(call)
	if !ok || len(vars) != 1 || t.split != nil || !empties(t.defaults) {
		return false
	}
	if t.at.shape == nil {
		a.reads = append(a.reads, t.at) // nothing is there
		return true
	}
	if !slices.Contains([]Type{List, Map}, t.at.shape.Type) {
		return false
	}
	if !r.body(rest[0], scope{vars[0]: t.at.elements()}) {
		return false
	}
	a.reads = append(a.reads, t.at)
	t.at.loops = append(t.at.loops, a)
	if len(t.defaults) > 0 {
		t.at.compared(t.defaults...)
	}
	return true
}

// body reads what a loop asks of each element. The element's atoms are evaluated as part of the loop.
func (r *reader) body(e ast.Expr, in scope) bool {
	if e.Kind() == ast.CallKind {
		call := e.AsCall()
		if _, ok := connectives[call.FunctionName()]; ok {
			for _, arg := range call.Args() {
				if !r.body(arg, in) {
					return false
				}
			}
			return true
		}
	}
	if e.Kind() == ast.LiteralKind {
		_, ok := literal(e).(bool)
		return ok
	}
	part := &atom{}
	if !r.read(part, e, in) {
		return false
	}
	return !slices.ContainsFunc(part.reads, func(n *node) bool { return !isElement(n) })
}
