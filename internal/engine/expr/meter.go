package expr

import (
	"context"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// cel-go's cost tracker keeps a stack of values and searches it at every step;
// a loop leaves something on it in every turn. So a loop over n elements takes
// time in n², and a list of a hundred thousand elements minutes, long before it
// reaches the cost limit. The meter counts the turns of all loops of an
// evaluation and replaces the tracker by a fresh one now and then, which makes
// it linear. Where the tracker cannot be reached, in programs of cel-go, it
// limits the turns.
const (
	renewEvery   = 128
	maxLoopTurns = 10000
	// lookUpEvery is how often a loop whose cost is not tracked looks whether the request is still there.
	lookUpEvery = 256
)

// meterVar is how the meter is found from within a loop. It is not an identifier
// of CEL, so that no expression can name it.
const meterVar = "@meter"

// meter belongs to one evaluation.
type meter struct {
	turns int
	// maxTurns is set where turns are all that is counted; one more ends the evaluation.
	maxTurns int
	spent    uint64 // according to the trackers that have been replaced
	limit    uint64
	charged  uint64          // by guards, whose limit is another one: they stop what the tracker would see too late
	guarded  uint64          // that limit
	ctx      context.Context // of the request; nil in the first step
	tracker  *interpreter.CostTracker
	renew    *interpreter.ObservableInterpretable // nil if the tracker cannot be replaced
}

// turn is called before every turn of a loop.
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

// loopTurns is how many turns there can be where turns are all that can be limited.
func (m *meter) loopTurns() int {
	return min(maxLoopTurns, int(m.guarded/turnCost))
}

// turnCost is what a turn of a loop costs at least, with everything around it.
const turnCost = 25

// charge takes what a call is about to cost. It ends the evaluation if that is too much.
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

// left is what can still be charged.
func (m *meter) left() uint64 {
	if m == nil {
		return 0
	}
	return m.guarded - min(m.guarded, m.charged)
}

// loopMeter wraps the conditions of all loops of an expression, so that they
// tell the meter of every turn.
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

// meteredCall is one that is a call, which the cost tracker must see.
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
