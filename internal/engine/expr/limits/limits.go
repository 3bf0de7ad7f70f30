package limits

import (
	"fmt"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"proviso.dev/proviso/internal/engine/expr/text"
)

// Limits of an expression. The type checker takes time in the fourth power of
// the depth of a type, in the square of the number of calls, and some macros
// double their argument, so a few hundred bytes can keep it busy forever. An
// expression over a limit is refused before it is checked, by counting alone:
// every replica counts the same.
const (
	maxTokens    = 3000 // before parsing
	maxNesting   = 48   // of brackets, before parsing
	MaxNodes     = 3000 // with macros expanded
	maxDepth     = 64   // of the expanded tree
	maxTypeDepth = 8    // of a list of lists
	maxCalls     = 600  // with macros expanded; their square counts
)

// MaxBytes is the largest expression in bytes.
const MaxBytes = 10240

// macroNodes is the most that a macro adds around its arguments.
const macroNodes = 16

// CheckSource refuses source that the parser would take too long for.
func CheckSource(source string) error {
	m := measureText(source)
	switch {
	case m.tokens > maxTokens:
		return fmt.Errorf("it has %d words and signs, the limit is %d", m.tokens, maxTokens)
	case m.nesting > maxNesting:
		return fmt.Errorf("its brackets are nested %d deep, the limit is %d", m.nesting, maxNesting)
	}
	return nil
}

// CheckSyntax refuses an expression that the type checker would take too long for, and, as a PatternError, one with a
// regular expression that is not accepted. Its macros are not expanded yet.
func CheckSyntax(e ast.Expr) error {
	w := weigh(e)
	switch {
	case w.nodes > MaxNodes:
		return fmt.Errorf("it has %d parts with its macros expanded, the limit is %d", w.nodes, MaxNodes)
	case w.calls > maxCalls:
		return fmt.Errorf("it has %d operators and calls with its macros expanded, the limit is %d", w.calls, maxCalls)
	case w.depth > maxDepth:
		return fmt.Errorf("its parts are nested %d deep, the limit is %d", w.depth, maxDepth)
	case w.types > maxTypeDepth:
		return fmt.Errorf("lists and maps are nested %d deep, the limit is %d", w.types, maxTypeDepth)
	case w.pattern != nil:
		return w.pattern
	}
	return nil
}

// weight is the work that the type checker will have.
type weight struct {
	nodes, calls, depth int
	// types is how deep the type of the value, or of an intermediate value, can be nested.
	types   int
	pattern *PatternError
}

// PatternError is a regular expression that is not accepted, at a node of the expression.
type PatternError struct {
	ID   int64
	text string
	err  error
}

func (e *PatternError) Error() string {
	return fmt.Sprintf("invalid regular expression %.40q: %v", e.text, e.err)
}

func (e *PatternError) Unwrap() error { return e.err }

// weigh returns an upper bound. Numbers saturate far above the limits.
func weigh(e ast.Expr) weight {
	s := scale{vars: map[string]int{}}
	w := s.expr(e, 1)
	w.types, w.pattern = s.most, s.pattern
	return w
}

type scale struct {
	vars    map[string]int // loop variables in scope, and how deep their types are
	most    int
	steps   int // of all regular expressions
	pattern *PatternError
}

const saturated = 1 << 30

func satAdd(a, b int) int { return min(a+b, saturated) }

func satMul(a, b int) int {
	if a != 0 && b > saturated/a {
		return saturated
	}
	return a * b
}

// join adds a part.
func (w *weight) join(part weight) {
	w.nodes, w.calls = satAdd(w.nodes, part.nodes), satAdd(w.calls, part.calls)
	w.depth = max(w.depth, part.depth+1)
}

func (s *scale) expr(e ast.Expr, at int) weight {
	w := weight{nodes: 1, depth: 1}
	if at > 4*maxDepth { // it is refused anyway
		w.depth = saturated
		return w
	}
	switch e.Kind() {
	case ast.IdentKind:
		w.types = s.vars[e.AsIdent()]
	case ast.SelectKind:
		part := s.expr(e.AsSelect().Operand(), at+1)
		w.join(part)
		w.types = max(0, part.types-1)
	case ast.CallKind:
		w = s.call(e.AsCall(), at)
	default:
		inner := 0
		text.Children(e, func(c ast.Expr) {
			part := s.expr(c, at+1)
			w.join(part)
			inner = max(inner, part.types)
		})
		if e.Kind() != ast.LiteralKind {
			w.calls = satAdd(w.calls, 1)
			w.types = inner + 1
		}
	}
	s.most = max(s.most, w.types)
	return w
}

func (s *scale) call(call ast.CallExpr, at int) weight {
	w := weight{nodes: 1, calls: 1, depth: 1}
	var target weight
	if call.IsMemberFunction() {
		target = s.expr(call.Target(), at+1)
		w.join(target)
	}
	s.regex(call)
	vars, rest := text.LoopVars(call)
	shadowed := make([]int, len(vars))
	for i, v := range vars {
		shadowed[i] = s.vars[v]
		s.vars[v] = max(0, target.types-1)
	}
	deepest, last := target.types, 0
	for _, a := range rest {
		part := s.expr(a, at+1)
		w.join(part)
		deepest, last = max(deepest, part.types), part.types
	}
	for i, v := range vars {
		s.vars[v] = shadowed[i]
	}
	if text.IsMacro(call) {
		w.nodes, w.calls, w.depth = satAdd(w.nodes, macroNodes), satAdd(w.calls, macroNodes/2), w.depth+4
	}
	switch call.FunctionName() {
	case "optMap", "optFlatMap", "sortBy": // their target appears more than once in the expansion
		w.nodes, w.calls = satAdd(w.nodes, satMul(2, target.nodes)), satAdd(w.calls, satMul(2, target.calls))
		w.types = max(target.types, last+1)
	case "map", "transformList", "transformMap", "transformMapEntry", "of", "ofNonZeroValue": // the latter of optional
		w.types = last + 1
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Equals, operators.NotEquals, operators.In,
		"has", "all", "exists", "exists_one", "existsOne", "size", "hasValue", "contains", "dyn":
		w.types = 0
	default:
		w.types = deepest
	}
	return w
}

// regex records a constant pattern that is too large or invalid.
func (s *scale) regex(call ast.CallExpr) {
	pattern, at, ok := PatternOf(call)
	if !ok || s.pattern != nil {
		return
	}
	steps, err := PatternSteps(pattern)
	if err == nil && s.steps+steps > maxPattern {
		err = fmt.Errorf("%w: with the others before it, it makes more than %d steps", ErrLargePattern, maxPattern)
	}
	if err != nil {
		s.pattern = &PatternError{at, pattern, err}
	}
	s.steps += steps
}
