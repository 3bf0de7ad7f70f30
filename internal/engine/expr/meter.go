package expr

import (
	"context"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// cel-go's cost tracker keeps a stack of values and searches it at every step;
// a loop leaves something on it in every iteration. So a loop over n elements
// takes time in n², and a list of a hundred thousand elements takes minutes,
// long before it reaches the cost limit. The meter counts the iterations of all
// loops of an evaluation and replaces the tracker with a fresh one now and
// then, which makes the time linear. Where the tracker cannot be reached, in
// programs of cel-go, it limits the iterations.
const (
	renewEvery   = 128
	maxLoopTurns = 10000
	// lookUpEvery is how often a loop whose cost is not tracked checks whether the request is cancelled.
	lookUpEvery = 256
)

// meterVar is the variable by which a loop finds the meter. It is not an identifier of CEL, so no expression can name
// it.
const meterVar = "@meter"

// meter belongs to one evaluation.
type meter struct {
	turns int
	// maxTurns is set where only iterations are counted; one more ends the evaluation.
	maxTurns int
	spent    uint64 // according to the trackers that have been replaced
	limit    uint64
	charged  uint64          // by guards, which have a separate limit: they stop what the tracker would see too late
	guarded  uint64          // that limit
	ctx      context.Context // of the request; nil in the first step
	tracker  *interpreter.CostTracker
	renew    *interpreter.ObservableInterpretable // nil if the tracker cannot be replaced
}

// turn is called before every iteration of a loop.
func (m *meter) turn(frame *interpreter.ExecutionFrame) {
	m.turns++
	if m.ctx != nil && m.turns%lookUpEvery == 0 && m.ctx.Err() != nil {
		panic(interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled, Message: "operation cancelled: " + m.ctx.Err().Error()})
	}
	switch {
	case m.maxTurns > 0:
		if m.turns > m.maxTurns {
			panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "operation cancelled: too many turns to go uncounted"})
		}
	case m.renew == nil:
		if m.turns > m.loopTurns() {
			panic(interpreter.EvalCancelledError{
				Cause: interpreter.CostLimitExceeded, Message: "operation cancelled: too many turns of loops",
			})
		}
	case m.turns%renewEvery == 0 && m.tracker != nil:
		m.spent += m.tracker.ActualCost()
		rest := m.limit - min(m.limit, m.spent)
		m.renew.ObserveExec(frame, func(observed any) {
			m.observe(observed)
			m.tracker.Limit = &rest
		})
	}
}

func (m *meter) observe(observed any) {
	if t, ok := observed.(*interpreter.CostTracker); ok && t != nil {
		m.tracker = t
	}
}

func (m *meter) cost() uint64 {
	if m.tracker == nil {
		return m.spent + m.charged
	}
	return m.spent + m.charged + m.tracker.ActualCost()
}

// loopTurns returns the limit of iterations where only iterations can be limited.
func (m *meter) loopTurns() int {
	return min(maxLoopTurns, int(m.guarded/turnCost))
}

// turnCost is the minimum cost of an iteration of a loop, with everything around it.
const turnCost = 25

// charge adds the cost of a call that is about to run. It ends the evaluation if that is too much.
func (m *meter) charge(cost uint64) {
	if m == nil || cost == 0 {
		return
	}
	if m.ctx != nil && m.ctx.Err() != nil {
		panic(interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled, Message: "operation cancelled: " + m.ctx.Err().Error()})
	}
	if cost > m.left() {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "operation cancelled: a call would cost too much"})
	}
	m.charged += cost
}

// left returns what can still be charged.
func (m *meter) left() uint64 {
	if m == nil {
		return 0
	}
	return m.guarded - min(m.guarded, m.charged)
}

// loopMeter wraps the conditions of all loops of an expression, which report every iteration to the meter.
func loopMeter(checked *cel.Ast) interpreter.InterpretableDecoratorV2 {
	conditions := map[int64]bool{}
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			conditions[e.AsComprehension().LoopCondition().ID()] = true
		}
	}))
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if !conditions[i.ID()] {
			return i, nil
		}
		switch node := i.(type) {
		case interpreter.InterpretableAttribute:
			return i, nil
		case interpreter.InterpretableCall:
			return &meteredCall{node}, nil
		default:
			return &metered{i}, nil
		}
	}
}

// metered is the condition of a loop.
type metered struct {
	interpreter.InterpretableV2
}

func (m *metered) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	count(frame)
	return m.InterpretableV2.Exec(frame)
}

func (m *metered) Eval(vars interpreter.Activation) ref.Val {
	return m.Exec(interpreter.AsFrame(vars))
}

// meteredCall is a loop condition that is a call, which the cost tracker must see.
type meteredCall struct {
	interpreter.InterpretableCall
}

func (m *meteredCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	count(frame)
	return m.InterpretableCall.Exec(frame)
}

func (m *meteredCall) Eval(vars interpreter.Activation) ref.Val {
	return m.Exec(interpreter.AsFrame(vars))
}

func count(frame *interpreter.ExecutionFrame) {
	if m := meterOf(frame); m != nil {
		m.turn(frame)
	}
}

func meterOf(frame *interpreter.ExecutionFrame) *meter {
	v, _ := frame.ResolveName(meterVar)
	m, _ := v.(*meter)
	return m
}
