package shadow

import (
	"context"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/requestctx"
)

var _ enforce.Observer = (*Recorder)(nil)

// Admitted implements enforce.Observer: after the decision, it records what would have happened to a request if the
// shadow rules were enforced (TR-6).
func (r *Recorder) Admitted(ctx context.Context, over enforce.Observation) {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil {
		return
	}
	for _, slot := range over.Slots {
		for _, s := range holder.Supposed(slot) {
			s.Settle(expr.WithBudget(ctx, nil), over.Aside(), over.Allowed)
		}
	}
	if len(holder.Snapshot.Shadow.Fields) > 0 {
		r.tryFields(ctx, holder, over)
	}
	if len(holder.Snapshot.Shadow.Protect.Each) > 0 {
		r.tryProtected(ctx, holder, over)
	}
}

// tryFields records what field permissions that are not enforced would have changed. They could not have allowed a
// write that was refused before its fields were checked.
func (r *Recorder) tryFields(ctx context.Context, holder *requestctx.State, over enforce.Observation) {
	resource, looked := over.Written()
	if !looked {
		return
	}
	was, left := AnswerOf(over.Allowed), maxSuppositions
	for _, one := range holder.Snapshot.Shadow.Fields {
		if !one.Concerns(resource) {
			continue
		}
		if left--; left < 0 {
			r.Count(one.Rule, holder.Attributes(), was, Undecided)
			continue
		}
		r.Note(ctx, one.Rule, holder.Attributes(), was, AnswerOf(over.TryFields(ctx, one.Table())))
	}
}

// tryProtected records which protected attributes that are not enforced would have refused the write.
func (r *Recorder) tryProtected(ctx context.Context, holder *requestctx.State, over enforce.Observation) {
	shadows := holder.Snapshot.Shadow.Protect
	if !over.Allowed || over.TryProtected(ctx, shadows.Index) {
		return
	}
	left := maxSuppositions
	for _, one := range shadows.Each {
		if over.Namespace != "" && one.Rule.Namespace != "" && one.Rule.Namespace != over.Namespace {
			continue // it protects nothing of this object
		}
		if left--; left < 0 {
			r.Count(one.Rule, holder.Attributes(), Allow, Undecided)
			continue
		}
		if !over.TryProtected(ctx, one.Index) {
			r.Note(ctx, one.Rule, holder.Attributes(), Allow, Deny)
		}
	}
}
