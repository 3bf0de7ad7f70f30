package expr

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"proviso.dev/proviso/internal/engine/expr/text"
)

var factory = ast.NewExprFactory()

// maxFolds bounds the work of making one text: each fold compiles a part of
// the expression.
const maxFolds = 64

// folder fills the known values into an expression. It leaves out a part only where the rest means the same, for every
// object, errors included.
type folder struct {
	c     *Compiler
	req   *Request
	bound map[string]int // loop variables in scope
	folds int
}

// fold returns e with the known values filled in.
func (f *folder) fold(e ast.Expr) ast.Expr {
	d := depsOf(e, f.bound)
	if d.request && !d.later && !d.bound {
		if lit, ok := f.known(e); ok {
			return lit
		}
	}
	if e.Kind() == ast.CallKind {
		return f.call(e)
	}
	if !d.request {
		return e
	}
	return rebuild(e, f.fold)
}

func (f *folder) each(es []ast.Expr) []ast.Expr {
	out := make([]ast.Expr, len(es))
	for i, e := range es {
		out[i] = f.fold(e)
	}
	return out
}

// known evaluates an expression that depends only on the request. An expression that fails is not folded: the error
// must stay.
func (f *folder) known(e ast.Expr) (ast.Expr, bool) {
	if name, ok := fieldOfRequest(e); ok {
		if val, ok := (*requestValue)(f.req).find(name); ok {
			return text.Literal(val)
		}
		return nil, false
	}
	if f.folds++; f.folds > maxFolds {
		return nil, false
	}
	env := f.c.envs[When].StoredExpressionsEnv()
	checked, iss := env.Compile(text.Source(e))
	if iss != nil && iss.Err() != nil {
		return nil, false
	}
	s, err := f.c.planners[When].stored.steps(env, checked)
	if err != nil {
		return nil, false
	}
	val, _, err := s.eval(nil, &activation{req: f.req}) //nolint:staticcheck // the first step is short and cannot be cancelled
	if err != nil || types.IsUnknownOrError(val) {
		return nil, false
	}
	return text.Literal(val)
}

// fieldOfRequest recognizes request.name, the most frequent fold, which needs no compiler.
func fieldOfRequest(e ast.Expr) (string, bool) {
	if e.Kind() != ast.SelectKind {
		return "", false
	}
	sel := e.AsSelect()
	if op := sel.Operand(); op.Kind() != ast.IdentKind || op.AsIdent() != varRequest {
		return "", false
	}
	return sel.FieldName(), true
}

func (f *folder) call(e ast.Expr) ast.Expr {
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		return joinLogical(operators.LogicalAnd, f.fold(args[0]), f.fold(args[1]))
	case operators.LogicalOr:
		return joinLogical(operators.LogicalOr, f.fold(args[0]), f.fold(args[1]))
	case operators.LogicalNot:
		arg := f.fold(args[0])
		if b, ok := boolLiteral(arg); ok {
			return factory.NewLiteral(0, !b)
		}
		return factory.NewCall(0, operators.LogicalNot, arg)
	case operators.Conditional:
		cond := f.fold(args[0])
		if b, ok := boolLiteral(cond); ok {
			if b {
				return f.fold(args[1])
			}
			return f.fold(args[2])
		}
		return factory.NewCall(0, operators.Conditional, cond, f.fold(args[1]), f.fold(args[2]))
	}
	if call.FunctionName() == operators.In {
		return f.in(args[0], args[1])
	}
	vars, rest := text.LoopVars(call)
	folded := append([]ast.Expr(nil), args[:len(args)-len(rest)]...)
	for _, v := range vars {
		f.bound[v]++
	}
	if isPresenceTest(call) {
		rest = f.tested(rest)
	} else {
		rest = f.each(rest)
	}
	for _, v := range vars {
		f.bound[v]--
	}
	folded = append(folded, rest...)
	if call.IsMemberFunction() {
		return factory.NewMemberCall(0, call.FunctionName(), f.fold(call.Target()), folded...)
	}
	return factory.NewCall(0, call.FunctionName(), folded...)
}

// in folds x in list. cel-go treats `x in []` as false without evaluating x; a list that is empty only in this request
// must not hide an error of x.
func (f *folder) in(x, list ast.Expr) ast.Expr {
	folded := f.fold(list)
	if folded.Kind() == ast.ListKind && folded.AsList().Size() == 0 && list.Kind() != ast.ListKind {
		folded = factory.NewCall(0, "dyn", folded)
	}
	return factory.NewCall(0, operators.In, f.fold(x), folded)
}

func isPresenceTest(call ast.CallExpr) bool {
	return call.FunctionName() == "has" && !call.IsMemberFunction()
}

// tested folds the argument of has(), which must stay a selection.
func (f *folder) tested(args []ast.Expr) []ast.Expr {
	if len(args) != 1 || args[0].Kind() != ast.SelectKind {
		return args
	}
	sel := args[0].AsSelect()
	return []ast.Expr{factory.NewSelect(0, f.fold(sel.Operand()), sel.FieldName())}
}

// joinLogical builds a && b or a || b. The neutral element disappears where the other side is certainly a boolean; the
// absorbing one decides only from the left, because an operand to the left of it may fail (CA-12).
func joinLogical(op string, a, b ast.Expr) ast.Expr {
	neutral := types.Bool(op == operators.LogicalAnd)
	if v, ok := boolLiteral(a); ok {
		if v != neutral {
			return a
		}
		if isBool(b) {
			return b
		}
	}
	if v, ok := boolLiteral(b); ok && v == neutral && isBool(a) {
		return a
	}
	return factory.NewCall(0, op, a, b)
}

func boolLiteral(e ast.Expr) (types.Bool, bool) {
	if e.Kind() != ast.LiteralKind {
		return false, false
	}
	b, ok := e.AsLiteral().(types.Bool)
	return b, ok
}

// boolCalls are the calls that give a boolean or fail.
var boolCalls = map[string]bool{
	operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true,
	operators.Equals: true, operators.NotEquals: true, operators.In: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
	"has": true, "all": true, "exists": true, "exists_one": true, "existsOne": true,
	"startsWith": true, "endsWith": true, "contains": true, "matches": true,
}

// isBool reports whether an expression certainly gives a boolean or fails.
func isBool(e ast.Expr) bool {
	if _, ok := boolLiteral(e); ok {
		return true
	}
	if e.Kind() != ast.CallKind {
		return false
	}
	call := e.AsCall()
	if call.FunctionName() == operators.Conditional {
		return isBool(call.Args()[1]) && isBool(call.Args()[2])
	}
	return boolCalls[call.FunctionName()]
}
