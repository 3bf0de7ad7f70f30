package policyreview

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// at is the context of a question about an instant; without one, about now.
func (r *Reviewer) at(ctx context.Context, instant *metav1.Time) context.Context {
	snap := authorize.SnapshotOf(ctx, r.Store)
	if instant != nil {
		return requestctx.At(ctx, snap, instant.Time)
	}
	if requestctx.InstantOf(ctx).IsZero() {
		_, now := r.Store.Now()
		return requestctx.At(ctx, snap, now)
	}
	return ctx
}

// until is the next edge of the subject's bindings after which the answer is another one; nil if there is none.
func (q *inquiry) until(ctx context.Context, allowed bool) *metav1.Time {
	return authorize.NextChange(ctx, authorize.SnapshotOf(ctx, q.Store), q.attrs.User, func(ctx context.Context) bool {
		then, _, _ := q.decide(ctx)
		return (then == authorizer.DecisionAllow) == allowed
	})
}
