package expr

import (
	"context"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Evaluate implements Condition.
func (p *Program) Evaluate(ctx context.Context, req *Request, effect Effect, data *Data) (bool, error) {
	switch {
	case ctx == nil || data == nil:
		return false, &EvalError{Reason: ReasonInternal, Detail: "evaluation needs a context and data"}
	case p.kind.ofField():
		return false, errNoCondition
	case data.budget.exhausted():
		return false, errBudget
	case p.kind == Where:
		return p.evaluateWhere(ctx, req, effect, data)
	}
	if data.busy {
		return p.run(ctx, &activation{req: req, data: data, version: p.apiVersion})
	}
	data.busy, data.room = true, activation{req: req, data: data, version: p.apiVersion}
	holds, err := p.run(ctx, &data.room)
	data.busy = false
	return holds, err
}

// run evaluates the program once.
func (p *Program) run(ctx context.Context, a *activation) (bool, error) {
	out, cost, err := p.evaluated(ctx, a)
	if !a.data.budget.spend(cost) {
		return false, errBudget
	}
	if err != nil {
		return false, classify(ctx, err, a.loadErr)
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, notBool(out)
	}
	return bool(b), nil
}

// evaluated uses the fastest step that is correct for this input.
func (p *Program) evaluated(ctx context.Context, a *activation) (ref.Val, uint64, error) {
	small := !p.uses.request || a.req.isSmall()
	if p.quick != nil && (p.bounds.Always || p.bounds.Second && small) {
		return p.quick.eval(ctx, a)
	}
	if p.counted != nil && p.counted.turns > 0 && small {
		if out, cost, err, done := p.counted.eval(ctx, a); done {
			return out, cost, err
		}
	}
	return p.full.eval(ctx, a)
}

func notBool(out ref.Val) *EvalError {
	if out == nil {
		return &EvalError{Reason: ReasonInternal, Detail: "evaluation gave nothing"}
	}
	return &EvalError{Reason: ReasonType, Detail: fmt.Sprintf("evaluation gave %s, not bool", out.Type().TypeName())}
}
