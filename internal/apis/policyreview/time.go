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

// maxEdges is how many edges are tried.
const maxEdges = 16

// until is the next edge of the subject's bindings after which the answer is another one; nil if there is none.
func (q *inquiry) until(ctx context.Context, allowed bool) *metav1.Time {
	snap, at := authorize.SnapshotOf(ctx, q.Store), requestctx.InstantOf(ctx)
	if !snap.IsTimed() || at.IsZero() {
		return nil
	}
	tried := 0
	for _, edge := range snap.Edges(q.attrs.User) {
		if !edge.After(at) {
			continue
		}
		if tried++; tried > maxEdges {
			return nil
		}
		snap = snap.At(edge) // from the one before: what moves in between is little
		then, _, _ := q.decide(requestctx.At(ctx, snap, edge))
		if (then == authorizer.DecisionAllow) != allowed {
			return &metav1.Time{Time: edge}
		}
	}
	return nil
}
