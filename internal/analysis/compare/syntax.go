package compare

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/expr/text"
)

// atom is a part of a condition without boolean connectives. The engine evaluates it.
type atom struct {
	text    string
	holds   evaluator
	reads   []*node // the paths whose values decide it
	exact   bool    // the states of these paths tell everything apart that it tells apart
	number  int
	results map[string]ternary // by the states of what it reads
}

// reader turns conditions into formulas, and notes for every path what is done with its value.
type reader struct {
	cache  *expr.Cache
	syntax func(source string) (ast.Expr, expr.Issues)
	vars   map[string]*node
	known  map[string]any // paths of the request whose values are fixed
	atoms  map[string]*atom
	order  []*atom
	failed error
}

// scope is the loop variables.
type scope map[string]*node

func (r *reader) formula(e ast.Expr) *formula {
	switch e.Kind() {
	case ast.LiteralKind:
		if b, ok := e.AsLiteral().(types.Bool); ok {
			if b {
				return always
			}
			return never
		}
	case ast.CallKind:
		call := e.AsCall()
		if op, ok := connectives[call.FunctionName()]; ok {
			f := &formula{op: op}
			for _, arg := range call.Args() {
				f.kids = append(f.kids, r.formula(arg))
			}
			return f
		}
	}
	if r.failing(e) {
		return &formula{value: fails}
	}
	return &formula{op: leaf, atom: r.atom(e)}
}

// failing reports whether an expression fails in every world: it reads a field of nothing, or one that the kind does
// not have, and CEL is strict except in its connectives, macros and optional selections.
func (r *reader) failing(e ast.Expr) bool {
	switch e.Kind() {
	case ast.SelectKind:
		operand := e.AsSelect().Operand()
		if operand.Kind() == ast.IdentKind {
			value, known := r.known[operand.AsIdent()]
			if known && value == nil {
				return true
			}
		}
		if t, ok := r.term(e, nil); ok && t.at.shape == nil && !optional(operand) {
			return true
		}
		return r.failing(operand)
	case ast.CallKind:
		call := e.AsCall()
		if _, ok := connectives[call.FunctionName()]; ok {
			return false
		}
		switch call.FunctionName() {
		case operators.OptSelect, operators.OptIndex:
			return r.failing(call.Args()[0])
		case "orValue":
			return call.IsMemberFunction() && r.failing(call.Target())
		case "has", "optMap", "optFlatMap", "or":
			return false
		}
		if call.IsMemberFunction() && r.failing(call.Target()) {
			return true
		}
		if vars, _ := text.LoopVars(call); len(vars) > 0 {
			return false
		}
		return slices.ContainsFunc(call.Args(), r.failing)
	}
	return false
}

var connectives = map[string]operator{operators.LogicalAnd: and, operators.LogicalOr: or, operators.LogicalNot: negation, operators.Conditional: choice}

// optional reports whether selections from e are optional.
func optional(e ast.Expr) bool {
	switch e.Kind() {
	case ast.SelectKind:
		return optional(e.AsSelect().Operand())
	case ast.CallKind:
		switch call := e.AsCall(); call.FunctionName() {
		case operators.OptSelect, operators.OptIndex, "ofNonZeroValue", "of", "or", "optMap", "optFlatMap":
			return true
		case operators.Index:
			return optional(call.Args()[0])
		}
	}
	return false
}

func (r *reader) atom(e ast.Expr) *atom {
	text := text.Source(e)
	if a := r.atoms[text]; a != nil {
		return a
	}
	a := &atom{text: text, number: len(r.order), results: map[string]ternary{}}
	// A value that is not true or false fails within a condition; alone it would not compile.
	program, issues := r.cache.Stored("("+text+") && true", expr.When, "").Program()
	if len(issues) > 0 {
		r.failed = issues // as a part it is of another type than within the whole: nothing can be said
		a.holds = nil
	} else {
		a.holds = program.Evaluate
	}
	a.exact = r.read(a, e, nil)
	if !a.exact {
		a.reads = nil
		r.sample(a, e, nil, literals(e))
	}
	r.atoms[text] = a
	r.order = append(r.order, a)
	return a
}

// term is a path, perhaps with a default, or a part of the text at it.
type term struct {
	at       *node
	defaults []any
	split    *split
}

// term reads a path.
func (r *reader) term(e ast.Expr, in scope) (t term, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		name := e.AsIdent()
		if at := in[name]; at != nil {
			return term{at: at}, true
		}
		if at := r.vars[name]; at != nil {
			return term{at: at}, true
		}
	case ast.SelectKind:
		sel := e.AsSelect()
		return r.step(sel.Operand(), sel.FieldName(), in)
	case ast.CallKind:
		return r.callTerm(e.AsCall(), in)
	}
	return term{}, false
}

func (r *reader) step(operand ast.Expr, name string, in scope) (term, bool) {
	t, ok := r.term(operand, in)
	if !ok || t.split != nil || !empties(t.defaults) {
		return term{}, false
	}
	return term{at: r.canonical(t.at, name)}, true
}

func (r *reader) callTerm(call ast.CallExpr, in scope) (term, bool) {
	args := call.Args()
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		if at, ok := literal(args[1]).(int64); ok && call.FunctionName() == operators.Index {
			return r.splitTerm(args[0], at, in)
		}
		if name, ok := literal(args[1]).(string); ok {
			return r.step(args[0], name, in)
		}
	case "orValue":
		if !call.IsMemberFunction() || len(args) != 1 {
			break
		}
		t, ok := r.term(call.Target(), in)
		value, isConstant := r.constant(args[0])
		if !ok || !isConstant || t.split != nil {
			break
		}
		t.defaults = append(t.defaults, value)
		return t, true
	case "ofNonZeroValue", "of":
		if !call.IsMemberFunction() || len(args) != 1 || call.Target().Kind() != ast.IdentKind || call.Target().AsIdent() != "optional" {
			break
		}
		t, ok := r.term(args[0], in)
		if ok && call.FunctionName() == "ofNonZeroValue" && t.at.shape != nil {
			t.defaults = append(t.defaults, zeros(t.at.shape)...)
		}
		return t, ok
	}
	return term{}, false
}

// splitTerm reads text.split(by)[at].
func (r *reader) splitTerm(e ast.Expr, at int64, in scope) (term, bool) {
	if e.Kind() != ast.CallKind || at < 0 || at > 8 {
		return term{}, false
	}
	call := e.AsCall()
	if call.FunctionName() != "split" || !call.IsMemberFunction() || len(call.Args()) != 1 {
		return term{}, false
	}
	t, ok := r.term(call.Target(), in)
	by, isText := literal(call.Args()[0]).(string)
	if !ok || !isText || by == "" || len(t.defaults) > 0 || t.split != nil || t.at.shape == nil || t.at.shape.Type != String {
		return term{}, false
	}
	t.split = &split{by: by, at: int(at)}
	return t, true
}

// canonical gives the different spellings of one value one node.
func (r *reader) canonical(at *node, name string) *node {
	if request := r.vars["request"]; at.parent == request && at.name == "userInfo" && request != nil {
		if name == "username" {
			name = "user"
		}
		return request.sub(name)
	}
	// The name of the request is that of the object, and an update changes neither name nor namespace.
	object, old := r.vars["object"], r.vars["oldObject"]
	present := func(v *node) bool {
		_, null := r.known[v.name]
		return v.shape != nil && !null && v.shape.Sub("metadata") != nil
	}
	switch {
	case at == r.vars["request"] && name == "name" && present(object):
		return object.sub("metadata").sub("name")
	case at == r.vars["request"] && name == "name" && present(old):
		return old.sub("metadata").sub("name")
	case at.parent == old && at.name == "metadata" && (name == "name" || name == "namespace") && present(object) && present(old):
		return object.sub("metadata").sub(name)
	}
	return at.sub(name)
}

func empties(values []any) bool {
	for _, v := range values {
		switch v := v.(type) {
		case []any:
			if len(v) > 0 {
				return false
			}
		case map[string]any:
			if len(v) > 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func zeros(s *Shape) []any {
	switch s.Type {
	case String:
		return []any{""}
	case Int, Number:
		return []any{int64(0)}
	case Bool:
		return []any{false}
	case List:
		return []any{[]any{}}
	case Map, Object:
		return []any{map[string]any{}}
	}
	return []any{"", int64(0), false, []any{}, map[string]any{}}
}

// constant is the value of an expression that is the same for every world.
func (r *reader) constant(e ast.Expr) (any, bool) {
	switch e.Kind() {
	case ast.LiteralKind:
		v := literal(e)
		return v, v != absent
	case ast.ListKind:
		out := []any{}
		for _, el := range e.AsList().Elements() {
			v, ok := r.constant(el)
			if !ok {
				return nil, false
			}
			out = append(out, v)
		}
		return out, len(e.AsList().OptionalIndices()) == 0
	case ast.MapKind:
		return map[string]any{}, len(e.AsMap().Entries()) == 0
	case ast.SelectKind:
		if t, ok := r.term(e, nil); ok {
			v, known := r.known[t.at.path()]
			return v, known
		}
	}
	return nil, false
}

// literal is the value of a literal in JSON, or absent.
func literal(e ast.Expr) any {
	if e.Kind() != ast.LiteralKind {
		return absent
	}
	switch v := e.AsLiteral().(type) {
	case types.String:
		return string(v)
	case types.Int:
		return int64(v)
	case types.Double:
		return float64(v)
	case types.Bool:
		return bool(v)
	case types.Null:
		return nil
	}
	return absent
}

// literals are all of an expression.
func literals(e ast.Expr) (all []any) {
	walk(e, func(e ast.Expr) {
		if v := literal(e); v != absent && v != nil {
			all = append(all, v)
		}
	})
	return all
}

func walk(e ast.Expr, visit func(ast.Expr)) {
	visit(e)
	switch e.Kind() {
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			walk(e.AsCall().Target(), visit)
		}
		for _, arg := range e.AsCall().Args() {
			walk(arg, visit)
		}
	case ast.SelectKind:
		walk(e.AsSelect().Operand(), visit)
	case ast.ListKind:
		for _, el := range e.AsList().Elements() {
			walk(el, visit)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			walk(entry.AsMapEntry().Key(), visit)
			walk(entry.AsMapEntry().Value(), visit)
		}
	}
}

// sample notes the paths of an atom that is not in the fragment, so that values can be tried.
func (r *reader) sample(a *atom, e ast.Expr, in scope, values []any) {
	if t, ok := r.term(e, in); ok {
		t.at.sampled = true
		t.at.compared(append(values, t.defaults...)...)
		if in == nil || !isElement(t.at) {
			a.reads = append(a.reads, t.at)
		}
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		vars, rest := text.LoopVars(call)
		inner := in
		if len(vars) > 0 {
			if t, ok := r.term(call.Target(), in); ok {
				inner = scope{}
				for name, at := range in {
					inner[name] = at
				}
				for _, name := range vars {
					inner[name] = t.at.elements()
				}
			}
		}
		if call.IsMemberFunction() {
			r.sample(a, call.Target(), in, values)
		}
		for _, arg := range rest {
			r.sample(a, arg, inner, values)
		}
	case ast.SelectKind:
		r.sample(a, e.AsSelect().Operand(), in, values)
	case ast.ListKind:
		for _, el := range e.AsList().Elements() {
			r.sample(a, el, in, values)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.sample(a, entry.AsMapEntry().Value(), in, values)
		}
	}
}

// isElement reports whether a node belongs to a loop; then its values are part of the list's.
func isElement(n *node) bool {
	for n.parent != nil {
		n = n.parent
	}
	return n.name == "[]"
}
