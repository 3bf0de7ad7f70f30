package expr

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"proviso.dev/proviso/internal/engine/expr/cost"
	"proviso.dev/proviso/internal/engine/expr/limits"
)

// Kubernetes charges for a call when it has returned, and by the outermost size
// of its arguments. Some calls do not return in time: a comparison of two
// objects in a loop, a replacement of every letter by a megabyte, a quantity of
// 1e999999999. Guards check the arguments first and charge for what the call is
// about to do.

// guard returns what a call is about to cost.
type guard func(args []ref.Val, left uint64) uint64

const (
	// guardLimit is what the guarded calls of one evaluation may cost.
	guardLimit = celconfig.PerCallLimit
	// impossible is more than any limit.
	impossible = ^uint64(0)
)

// guarded finds the calls of an expression that need a guard, by ID. Calls of
// plain functions that are listed here are also kept from being evaluated
// without tracking their cost.
func guarded(checked *cel.Ast) map[int64]guard {
	found := map[int64]guard{}
	native := checked.NativeRep()
	ast.PreOrderVisit(native.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		args := call.Args()
		switch name := call.FunctionName(); name {
		case operators.Equals, operators.NotEquals:
			if mayBeDeep(native, args[0]) && mayBeDeep(native, args[1]) {
				found[e.ID()] = guardEquality
			}
		case operators.In:
			if mayBeDeep(native, args[0]) && mayBeDeep(native, args[1]) {
				found[e.ID()] = guardIn
			}
		case operators.Add:
			if mayBeDeep(native, args[0]) && mayBeDeep(native, args[1]) && !isAccumulation(args) {
				found[e.ID()] = guardConcat
			}
		case "matches", "find", "findAll":
			pattern, _, constant := limits.PatternOf(call)
			steps, err := limits.PatternSteps(pattern) // an invalid pattern was refused, or fails when it is called
			if !constant || err != nil || steps > len(pattern)+1 {
				found[e.ID()] = guardRegex
			}
		default:
			if g, ok := functionGuards[name]; ok {
				found[e.ID()] = g
			}
		}
	}))
	return found
}

// isAccumulation reports whether this is the step with which map and filter collect their results: cel-go appends in
// place.
func isAccumulation(args []ast.Expr) bool {
	if args[0].Kind() != ast.IdentKind || args[1].Kind() != ast.ListKind {
		return false
	}
	name := args[0].AsIdent()
	return name == parser.AccumulatorName || name == parser.HiddenAccumulatorName
}

// mayBeDeep reports whether a value can hold others. Comparing with one that
// cannot is cheap, whatever the other is.
func mayBeDeep(native *ast.AST, e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return false
	case ast.ListKind:
		for _, el := range e.AsList().Elements() {
			if el.Kind() != ast.LiteralKind {
				return true
			}
		}
		return false
	}
	switch t := native.GetType(e.ID()); t.Kind() {
	case types.BoolKind, types.BytesKind, types.DoubleKind, types.DurationKind, types.IntKind, types.NullTypeKind,
		types.StringKind, types.TimestampKind, types.TypeKind, types.UintKind:
		return false
	case types.ListKind:
		params := t.Parameters()
		return len(params) != 1 || !isFlat(params[0])
	}
	return true
}

func isFlat(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.DoubleKind, types.IntKind, types.StringKind, types.UintKind:
		return true
	}
	return false
}

func guardEquality(args []ref.Val, left uint64) uint64 {
	if !isContainer(args[0]) || !isContainer(args[1]) {
		return 0
	}
	n := cost.Deep(args[0], left)
	return min(n, cost.Deep(args[1], n))
}

func isContainer(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper, *types.Optional:
		return true
	}
	return false
}

func guardIn(args []ref.Val, left uint64) uint64 {
	n, isList := cost.ListSize(args[1])
	if !isList || !isContainer(args[0]) {
		return 0
	}
	return n + cost.Deep(args[1], left)
}

// guardConcat charges for copying: cel-go joins lists without copying, and then every operation on the result takes
// time in the number of joins.
func guardConcat(args []ref.Val, _ uint64) uint64 {
	a, isList := cost.ListSize(args[0])
	b, areLists := cost.ListSize(args[1])
	if !isList || !areLists {
		return 0
	}
	if _, mutable := args[0].(traits.MutableLister); mutable {
		return b
	}
	return a + b
}

func guardRegex(args []ref.Val, _ uint64) uint64 {
	s, isText := cost.TextSize(args[0])
	pattern, isPattern := args[1].(types.String)
	if !isText || !isPattern {
		return 0
	}
	steps, err := limits.PatternSteps(string(pattern))
	switch {
	case errors.Is(err, limits.ErrLargePattern):
		return impossible
	case err != nil:
		return 0 // the call says what is wrong with it
	}
	return uint64(steps) * (s/32 + 4)
}

// functionGuards are for calls whose result, or whose work, grows faster than
// their arguments.
var functionGuards = map[string]guard{
	"lists.range": func(args []ref.Val, _ uint64) uint64 {
		if n, ok := args[0].(types.Int); ok && n > 0 {
			return uint64(n)
		}
		return 0
	},
	"replace": guardReplace,
	"join":    guardJoin,
	"format":  guardFormat,
	"distinct": func(args []ref.Val, left uint64) uint64 {
		n, _ := cost.ListSize(args[0])
		return n * cost.Deep(args[0], left) / 2
	},
	"sets.contains": guardSets, "sets.equivalent": guardSets, "sets.intersects": guardSets,
	"indexOf": guardSearch, "lastIndexOf": guardSearch, "includes": guardSearch,
	"flatten": guardTraversal, "sort": guardSort, "@sortByAssociatedKeys": guardSort,
	"isSorted": guardTraversal, "sum": guardTraversal, "min": guardTraversal, "max": guardTraversal,
	"quantity": guardQuantity, "isQuantity": guardQuantity,
	"getDate": guardZone, "getDayOfMonth": guardZone, "getDayOfWeek": guardZone, "getDayOfYear": guardZone, "getFullYear": guardZone,
	"getHours": guardZone, "getMilliseconds": guardZone, "getMinutes": guardZone, "getMonth": guardZone, "getSeconds": guardZone,
}

// textCost returns the cost of building text of so many bytes.
func textCost(n uint64) uint64 { return n / 10 }

func guardReplace(args []ref.Val, _ uint64) uint64 {
	if len(args) < 3 {
		return 0
	}
	s, isText := args[0].(types.String)
	old, isOld := args[1].(types.String)
	by, isNew := args[2].(types.String)
	if !isText || !isOld || !isNew {
		return 0
	}
	return textCost(uint64(len(s)) + uint64(strings.Count(string(s), string(old)))*uint64(len(by)))
}

func guardJoin(args []ref.Val, left uint64) uint64 {
	n, _ := cost.ListSize(args[0])
	total := cost.Deep(args[0], left) * cost.TextPerUnit
	if len(args) > 1 {
		by, _ := cost.TextSize(args[1])
		total += n * by
	}
	return textCost(total)
}

func guardFormat(args []ref.Val, left uint64) uint64 {
	if len(args) < 2 {
		return 0
	}
	format, _ := args[0].(types.String)
	digits := 0
	for _, c := range []byte(format) {
		if c >= '0' && c <= '9' {
			if digits++; digits > 2 {
				return impossible // %.100000f
			}
		} else {
			digits = 0
		}
	}
	return textCost(uint64(len(format))*32) + cost.Deep(args[1], left)*2
}

func guardSets(args []ref.Val, left uint64) uint64 {
	if len(args) != 2 {
		return 0
	}
	n, _ := cost.ListSize(args[0])
	m, _ := cost.ListSize(args[1])
	return n*cost.Deep(args[1], left) + m*cost.Deep(args[0], left)
}

func guardSearch(args []ref.Val, left uint64) uint64 {
	if _, isList := cost.ListSize(args[0]); !isList {
		return 0
	}
	return cost.Deep(args[0], left)
}

func guardTraversal(args []ref.Val, left uint64) uint64 { return cost.Deep(args[0], left) }

func guardSort(args []ref.Val, left uint64) uint64 { return 8 * cost.Deep(args[0], left) }

// guardQuantity refuses exponents that no real quantity has: parsing one expands all its digits.
func guardQuantity(args []ref.Val, _ uint64) uint64 {
	s, ok := args[0].(types.String)
	if !ok {
		return 0
	}
	if len(s) > 64 {
		return impossible
	}
	if i := strings.LastIndexAny(string(s), "eE"); i >= 0 && len(strings.TrimLeft(string(s[i+1:]), "+-0")) > 2 {
		return impossible
	}
	return 0
}

// guardZone charges for looking up a time zone.
func guardZone(args []ref.Val, _ uint64) uint64 {
	if len(args) > 1 {
		return 100
	}
	return 0
}

// guards replaces the calls that need a guard.
func (pl *planner) guards(calls map[int64]guard) interpreter.InterpretableDecoratorV2 {
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		check, ok := calls[i.ID()]
		call, isCall := i.(interpreter.InterpretableCall)
		if !ok || !isCall {
			return i, nil
		}
		run, err := pl.implementation(call)
		if err != nil {
			return nil, err
		}
		args := call.Args()
		if limits.TakesPattern(call.Function()) && len(args) == 2 {
			if run, err = compiledRegex(call, run); err != nil {
				return nil, err
			}
			// Otherwise cel-go would take it for a constant and replace the call.
			args = []interpreter.InterpretableV2{args[0], hidden{args[1]}}
		}
		return &guardedCall{InterpretableCall: call, args: args, check: check, run: run}, nil
	}
}

type hidden struct{ interpreter.InterpretableV2 }

// compiledRegex compiles a constant pattern once.
func compiledRegex(call interpreter.InterpretableCall, run functions.FunctionOp) (functions.FunctionOp, error) {
	constant, ok := call.Args()[1].(interpreter.InterpretableConst)
	if !ok || call.Function() != "matches" {
		return run, nil
	}
	pattern, ok := constant.Value().(types.String)
	if !ok {
		return run, nil
	}
	re, err := regexp.Compile(string(pattern))
	if err != nil {
		return nil, err
	}
	return func(args ...ref.Val) ref.Val {
		s, ok := args[0].(types.String)
		if !ok {
			return types.NoSuchOverloadErr()
		}
		return types.Bool(re.MatchString(string(s)))
	}, nil
}

// implementation finds the function that a call calls.
func (pl *planner) implementation(call interpreter.InterpretableCall) (functions.FunctionOp, error) {
	switch call.Function() {
	case operators.Equals:
		return func(args ...ref.Val) ref.Val { return types.Equal(args[0], args[1]) }, nil
	case operators.NotEquals:
		return func(args ...ref.Val) ref.Val { return types.Bool(types.Equal(args[0], args[1]) != types.True) }, nil
	case operators.Add:
		return concat, nil
	}
	impl := pl.bindings[call.OverloadID()]
	if impl == nil {
		impl = pl.bindings[call.Function()]
	}
	if impl == nil {
		return nil, fmt.Errorf("function %s has no implementation", call.Function())
	}
	name := call.Function()
	return func(args ...ref.Val) ref.Val {
		if impl.OperandTrait != 0 && !args[0].Type().HasTrait(impl.OperandTrait) {
			return types.NewErr("no such overload: %s", name)
		}
		switch {
		case len(args) == 1 && impl.Unary != nil:
			return impl.Unary(args[0])
		case len(args) == 2 && impl.Binary != nil:
			return impl.Binary(args[0], args[1])
		case impl.Function != nil:
			return impl.Function(args...)
		}
		return types.NewErr("no such overload: %s", name)
	}, nil
}

// concat is + for operands that can be lists: they are copied, see guardConcat.
func concat(args ...ref.Val) ref.Val {
	a, isAdder := args[0].(traits.Adder)
	if !isAdder {
		return types.NewErr("no such overload: %s", operators.Add)
	}
	left, isList := args[0].(traits.Lister)
	right, areLists := args[1].(traits.Lister)
	if _, mutable := args[0].(traits.MutableLister); !isList || !areLists || mutable {
		return a.Add(args[1])
	}
	var all []ref.Val
	for _, l := range []traits.Lister{left, right} {
		for it := l.Iterator(); it.HasNext() == types.True; {
			all = append(all, it.Next())
		}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, all)
}

// guardedCall is a call that is charged for before it is made.
type guardedCall struct {
	interpreter.InterpretableCall
	args  []interpreter.InterpretableV2
	check guard
	run   functions.FunctionOp
}

func (g *guardedCall) Args() []interpreter.InterpretableV2 { return g.args }

func (g *guardedCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(g.args))
	for i, arg := range g.args {
		// As in cel-go, both sides of an operator are evaluated, even if one of them fails.
		if args[i] = arg.Exec(frame); len(args) != 2 && types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	for _, arg := range args {
		if types.IsUnknownOrError(arg) {
			return arg
		}
	}
	m := meterOf(frame)
	m.charge(g.check(args, m.left()))
	return types.LabelErrNode(g.ID(), g.run(args...))
}

func (g *guardedCall) Eval(vars interpreter.Activation) ref.Val {
	return g.Exec(interpreter.AsFrame(vars))
}
