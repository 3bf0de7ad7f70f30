package expr

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// planner plans the expressions of one environment. It does what cel-go's
// Env.Program does, with two differences: all programs share one dispatcher,
// which is most of the memory of a program (2 KiB instead of 32), and an
// expression that no input can make too expensive is not slowed down to a third
// of its speed by tracking its cost.
type planner struct {
	interpreter.Interpreter
	limit    uint64
	bindings map[string]*functions.Overload // by overload and by function
	costs    interpreter.PlannerOption
	renew    *interpreter.ObservableInterpretable // does nothing, except starting a fresh cost tracker
}

func newPlanner(env *cel.Env, limit uint64) (*planner, error) {
	disp := interpreter.NewDispatcher()
	all := map[string]*functions.Overload{}
	for name, fn := range env.Functions() {
		bindings, err := fn.Bindings()
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", name, err)
		}
		if err := disp.Add(bindings...); err != nil {
			return nil, fmt.Errorf("function %s: %w", name, err)
		}
		for _, b := range bindings {
			all[b.Operator] = b
		}
	}
	provider, adapter := env.CELTypeProvider(), env.CELTypeAdapter()
	attrs := interpreter.NewAttributeFactory(env.Container, adapter, provider)
	tracker, err := interpreter.NewCostTracker(&library.CostEstimator{},
		interpreter.PresenceTestHasCost(false), interpreter.CostTrackerLimit(limit))
	if err != nil {
		return nil, err
	}
	pl := &planner{
		Interpreter: interpreter.NewInterpreter(disp, env.Container, provider, adapter, attrs),
		limit:       limit,
		bindings:    all,
		costs:       interpreter.CostObserver(interpreter.CostTrackerFactory(tracker.Clone)),
	}
	nothing, iss := env.Compile("true")
	if iss != nil && iss.Err() != nil {
		return nil, iss.Err()
	}
	pl.renew, err = pl.observed(nothing, pl.costs)
	return pl, err
}

// untracked plans without tracking cost.
func (pl *planner) untracked(checked *cel.Ast) (interpreter.InterpretableV2, error) {
	return pl.NewInterpretable(checked.NativeRep(), interpreter.CustomDecoratorV2(readsPaths(checked)), interpreter.Optimize(),
		interpreter.CompileRegexConstants(interpreter.MatchesRegexOptimization))
}

// counting plans without tracking cost, but counts the iterations of loops.
func (pl *planner) counting(checked *cel.Ast) (interpreter.InterpretableV2, error) {
	return pl.NewInterpretable(checked.NativeRep(), interpreter.CustomDecoratorV2(loopMeter(checked)), interpreter.CustomDecoratorV2(readsPaths(checked)), interpreter.Optimize(),
		interpreter.CompileRegexConstants(interpreter.MatchesRegexOptimization))
}

// tracked plans with Kubernetes' cost limit, and with loops that can be interrupted.
func (pl *planner) tracked(checked *cel.Ast) (*tracked, error) {
	code, err := pl.observed(checked, interpreter.CustomDecoratorV2(loopMeter(checked)), interpreter.CustomDecoratorV2(pl.guards(guarded(checked))),
		interpreter.InterruptableEval(), interpreter.Optimize(), interpreter.CompileRegexConstants(interpreter.MatchesRegexOptimization), pl.costs)
	return &tracked{code, pl}, err
}

func (pl *planner) observed(checked *cel.Ast, opts ...interpreter.PlannerOption) (*interpreter.ObservableInterpretable, error) {
	code, err := pl.NewInterpretable(checked.NativeRep(), opts...)
	if err != nil {
		return nil, err
	}
	obs, ok := code.(*interpreter.ObservableInterpretable)
	if !ok {
		return nil, fmt.Errorf("plan of type %T does not track cost", code)
	}
	return obs, nil
}

// steps plans an expression such that it is correct for every input.
func (pl *planner) steps(env *cel.Env, checked *cel.Ast) (steps, error) {
	if isPlain(checked) {
		return pl.tracked(checked)
	}
	prog, err := env.Program(checked, cel.CostLimit(pl.limit), cel.CustomDecoratorV2(loopMeter(checked)),
		cel.CustomDecoratorV2(pl.guards(guarded(checked))), cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	return &program{prog}, err
}

// plainCalls are the functions that need nothing but their implementation.
// Libraries may plan their functions in a special way, as optional types do
// with orValue, or track their cost differently. cel-go does not expose that,
// so an expression with another function runs as a program of cel-go.
var plainCalls = map[string]bool{
	operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true, operators.Conditional: true,
	operators.Equals: true, operators.NotEquals: true, operators.In: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
	operators.Add: true, operators.Subtract: true, operators.Multiply: true, operators.Divide: true,
	operators.Modulo: true, operators.Negate: true, operators.Index: true, operators.NotStrictlyFalse: true,
	"size": true, "startsWith": true, "endsWith": true, "contains": true, "matches": true, "dyn": true,
}

// isPlain reports whether an expression has only plain calls.
func isPlain(checked *cel.Ast) bool {
	plain := true
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.CallKind && !plainCalls[e.AsCall().FunctionName()] {
			plain = false
		}
	}))
	return plain
}
