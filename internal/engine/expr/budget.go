package expr

import (
	"context"
	"sync/atomic"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Budget is the runtime cost that all expressions of one request together may spend: conditions, and expressions of
// field permissions.
type Budget struct{ left atomic.Int64 }

// NewBudget returns a budget; 0 means Kubernetes' budget per policy.
func NewBudget(cost int64) *Budget { return new(Budget).fill(cost) }

func (b *Budget) fill(cost int64) *Budget {
	if cost == 0 {
		cost = celconfig.RuntimeCELCostBudget
	}
	b.left.Store(cost)
	return b
}

// spend takes cost from the budget and reports whether it sufficed. Once it did not, it never does again. A nil budget
// suffices for nothing.
func (b *Budget) spend(cost uint64) bool {
	if b == nil {
		return false
	}
	if left := b.left.Load(); left < 0 || cost > uint64(left) {
		b.left.Store(-1)
		return false
	}
	return b.left.Add(-int64(cost)) >= 0
}

func (b *Budget) exhausted() bool { return b == nil || b.left.Load() < 0 }

// budgetKey is a context key because the engine does not know requests: conditions only get their context.
type budgetKey struct{}

// WithBudget makes evaluations with the context spend from the budget.
func WithBudget(ctx context.Context, b *Budget) context.Context {
	return context.WithValue(ctx, budgetKey{}, b)
}

// BudgetOf returns the budget of the context; nil if it has none.
func BudgetOf(ctx context.Context) *Budget {
	b, _ := ctx.Value(budgetKey{}).(*Budget)
	return b
}
