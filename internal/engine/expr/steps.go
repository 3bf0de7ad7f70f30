package expr

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// steps is a planned expression. A nil context means that it cannot be cancelled, as in the first step. The activation
// can set a limit that is lower than the planner's.
type steps interface {
	eval(ctx context.Context, a *activation) (out ref.Val, cost uint64, err error)
}

// bounded evaluates without tracking cost. The cost it reports is an upper bound.
type bounded struct {
	code interpreter.InterpretableV2
	cost uint64
}

func (b *bounded) eval(ctx context.Context, a *activation) (out ref.Val, cost uint64, err error) {
	if ctx != nil && ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	defer recovered(&out, &err)
	frame, err := interpreter.NewExecutionFrame(a)
	if err != nil {
		return nil, 0, err
	}
	defer frame.Close()
	out = b.code.Exec(frame)
	return out, b.cost, failure(out)
}

// counted evaluates without tracking cost, and gives up after so many iterations of loops that it could cost too much:
// then a metered evaluation is needed.
type counted struct {
	code  interpreter.InterpretableV2
	turn  uint64
	turns int
}

func (c *counted) eval(ctx context.Context, a *activation) (out ref.Val, cost uint64, err error, done bool) {
	if ctx.Err() != nil {
		return nil, 0, ctx.Err(), true
	}
	m := &meter{maxTurns: c.turns, ctx: ctx}
	a.meter = m
	defer func() {
		cost, done = c.turn*uint64(m.turns+1), m.turns <= c.turns
	}()
	defer recovered(&out, &err)
	frame, err := interpreter.NewExecutionFrame(a)
	if err != nil {
		return nil, 0, err, true
	}
	defer frame.Close()
	out = c.code.Exec(frame)
	return out, 0, failure(out), true
}

// tracked evaluates under the cost limit.
type tracked struct {
	code    *interpreter.ObservableInterpretable
	planner *planner
}

func (t *tracked) eval(ctx context.Context, a *activation) (out ref.Val, cost uint64, err error) {
	m := &meter{limit: a.within(t.planner.limit), guarded: a.within(guardLimit), renew: t.planner.renew, ctx: ctx}
	a.meter = m
	defer func() { cost = m.cost() }()
	defer recovered(&out, &err)
	frame, err := interpreter.NewExecutionFrame(a)
	if err != nil {
		return nil, 0, err
	}
	defer frame.Close()
	if ctx != nil {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if err := frame.SetContext(ctx, celconfig.CheckFrequency); err != nil {
			return nil, 0, err
		}
	}
	out = t.code.ObserveExec(frame, func(observed any) {
		m.observe(observed)
		if m.tracker != nil {
			m.tracker.Limit = &m.limit
		}
	})
	return out, 0, failure(out)
}

// program evaluates with cel-go's own program.
type program struct {
	prog cel.Program
}

func (p *program) eval(ctx context.Context, a *activation) (ref.Val, uint64, error) {
	var out ref.Val
	var det *cel.EvalDetails
	var err error
	m := &meter{guarded: a.within(guardLimit), ctx: ctx}
	a.meter = m
	if ctx == nil {
		out, det, err = p.prog.Eval(a)
	} else if err = ctx.Err(); err == nil {
		out, det, err = p.prog.ContextEval(ctx, a)
	}
	if cost := det.ActualCost(); cost != nil {
		return out, *cost + m.charged, err
	}
	return out, m.charged, err
}

// recovered turns a panic into an error, as cel-go's programs do: the cost
// tracker stops an evaluation by panicking.
func recovered(out *ref.Val, err *error) {
	switch r := recover().(type) {
	case nil:
	case interpreter.EvalCancelledError:
		*out, *err = nil, r
	default:
		*out, *err = nil, fmt.Errorf("internal error: %v", r)
	}
}

func failure(out ref.Val) error {
	if e, ok := out.(*types.Err); ok {
		return e
	}
	return nil
}
