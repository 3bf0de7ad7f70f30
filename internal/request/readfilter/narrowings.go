package readfilter

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// narrows computes what a watch is narrowed to under a policy; see authorize.Gate.
type narrows interface {
	NarrowFor(context.Context, *snapshot.Snapshot, authorizer.Attributes) (*requestctx.Narrowing, error)
	NarrowAgain(context.Context, *snapshot.Snapshot, authorizer.Attributes, *requestctx.Narrowing) (n *requestctx.Narrowing, settled bool, err error)
}

// narrowings asks whether watches are still narrowed to what their callers may see. It remembers the narrowing that was
// computed last: the next one is often computed from the same rules.
type narrowings struct{ narrows }

// ask implements asks.
func (n narrowings) ask(ctx context.Context, queue int, attrs authorizer.Attributes, due []*watching, last any) (unchanged []bool, remember any, settled bool) {
	before, _ := last.(*requestctx.Narrowing)
	for _, w := range due {
		if before == nil {
			before = w.narrowing
		}
	}
	now, settled, err := n.narrow(ctx, queue, attrs, before)
	if now != nil {
		last = now
	}
	unchanged = make([]bool, len(due))
	for i, w := range due {
		unchanged[i] = err == nil && same(now, w.narrowing)
	}
	return unchanged, last, settled
}

func (n narrowings) narrow(ctx context.Context, queue int, attrs authorizer.Attributes, before *requestctx.Narrowing) (now *requestctx.Narrowing, settled bool, _ error) {
	policy := requestctx.From(ctx).Snapshot
	if queue == quick {
		return n.NarrowAgain(ctx, policy, attrs, before)
	}
	now, err := n.NarrowFor(ctx, policy, attrs)
	return now, true, err
}

// same reports whether two watches send the same objects.
func same(a, b *requestctx.Narrowing) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a == b || a.View() == b.View()
}
