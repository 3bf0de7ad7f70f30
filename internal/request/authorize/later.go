package authorize

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Later decides requests again when they are admitted: by the same policy, at the instant of admission (TM-3).
type Later struct {
	Gate  *Gate
	Clock snapshot.Clock
}

// Again returns the state of a request as decided at this instant; nil if that cannot differ from the decision on
// arrival. A check that is no longer allowed leaves its slot empty.
func (l Later) Again(ctx context.Context, holder *requestctx.State) (context.Context, *requestctx.State) {
	snap, decided := holder.Snapshot, holder.Attributes()
	if decided == nil || !snap.IsTimed() && !snap.Rules.AsksTime() {
		return ctx, nil
	}
	now, known := l.Clock.Now()
	if !known {
		now = time.Time{}
	}
	if !snap.Rules.AsksTime() && known == !holder.Instant.IsZero() && (!known || snap.HoldsAt(now)) {
		return ctx, nil
	}
	ctx = requestctx.At(ctx, snap, now)
	later := requestctx.From(ctx)
	for slot, attrs := range map[requestctx.Slot]authorizer.Attributes{requestctx.Request: decided, requestctx.Create: WithVerb(decided, verbs.Create)} {
		if v := l.Gate.Decide(ctx, attrs); v.AtAuthorization() == authorizer.DecisionAllow {
			later.Put(slot, attrs, v.Pass)
			later.NoteBy(slot, v.By)
		} else if slot == requestctx.Request {
			later.Put(slot, attrs, requestctx.Pass{})
		}
	}
	return ctx, later
}
