package authorize

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// maxEdges is how many edges are tried.
const maxEdges = 16

// NextChange returns the next edge of a user's bindings and grants, after the instant of the context, at which an
// answer changes; nil if there is none. Same asks again and reports whether the answer is unchanged.
func NextChange(ctx context.Context, snap *snapshot.Snapshot, who user.Info, same func(context.Context) bool) *metav1.Time {
	at := requestctx.InstantOf(ctx)
	if !snap.IsTimed() || at.IsZero() {
		return nil
	}
	tried := 0
	for _, edge := range snap.Edges(who) {
		if !edge.After(at) {
			continue
		}
		if tried++; tried > maxEdges {
			return nil
		}
		snap = snap.At(edge) // from the previous one: little changes in between
		if !same(requestctx.At(ctx, snap, edge)) {
			return &metav1.Time{Time: edge}
		}
	}
	return nil
}
