package requestctx

import (
	"context"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/state/snapshot"
)

type waits struct{}

func (waits) Resolve(context.Context, authorizer.ConditionsData) Outcome { return Outcome{} }

// CA-1, CA-7: nothing that was never decided is an allowance: no holder, no pass, no outcome.
func TestZeroValuesDeny(t *testing.T) {
	if From(t.Context()) != nil {
		t.Error("a holder of nothing")
	}
	if d := (Pass{}); d.IsAllowed() || d.IsGranular() || d.Pending() != nil {
		t.Errorf("the zero pass: %+v", d)
	}
	if d := Granular(nil); d.IsAllowed() || !d.IsGranular() || d.Pending() != nil || d.Fields() != nil {
		t.Errorf("rights to fields of nothing: %+v", d)
	}
	if d := Granular(waits{}).Answered(waits{}); d.IsAllowed() || !d.IsGranular() || d.Pending() == nil || d.Fields() == nil {
		t.Errorf("rights to fields: %+v", d)
	}
	if d := Conditional(nil); d.IsAllowed() || d.IsGranular() || d.Pending() != nil {
		t.Errorf("a condition of nothing: %+v", d)
	}
	if d := (Outcome{}).Decision; d != authorizer.DecisionDeny {
		t.Errorf("the zero outcome: %v", d)
	}
	h := From(With(t.Context(), nil))
	if h == nil || h.Snapshot != nil || h.Attributes() != nil {
		t.Errorf("an empty holder: %+v", h)
	}
	for slot := range slots {
		if d := h.Get(slot); d.IsAllowed() || d.IsGranular() || d.Pending() != nil {
			t.Errorf("slot %d of an empty holder: %+v", slot, d)
		}
	}
}

// CA-5, CA-8: each slot holds its own pass, the newest one, and only that of the request says what was decided about.
func TestSlotsAreApart(t *testing.T) {
	snap := &snapshot.Snapshot{Generation: 7}
	ctx := With(t.Context(), snap)
	h := From(ctx)
	if h.Snapshot != snap {
		t.Error("another snapshot")
	}
	attrs, other := authorizer.AttributesRecord{Verb: "update"}, authorizer.AttributesRecord{Verb: "create"}
	h.Put(Create, other, Allowed())
	if h.Get(Request).IsAllowed() || h.Get(Connect).IsAllowed() || !h.Get(Create).IsAllowed() || h.Attributes() != nil {
		t.Error("the pass for the create has leaked")
	}
	h.Put(Request, attrs, Conditional(waits{}))
	h.Put(Connect, other, Allowed())
	if d := h.Get(Request); d.IsAllowed() || d.IsGranular() || d.Pending() == nil {
		t.Errorf("a condition: %+v", d)
	}
	if got := h.Attributes(); got == nil || got.GetVerb() != "update" {
		t.Errorf("decided about %v", h.Attributes())
	}
	h.Put(Create, other, Pass{})
	if h.Get(Create).IsAllowed() {
		t.Error("an allowance outlives its denial")
	}
	if From(With(ctx, snap)) == h {
		t.Error("two requests share a holder")
	}
}

// A request is decided in several goroutines: run with -race.
func TestHolderIsSafe(t *testing.T) {
	h := From(With(t.Context(), nil))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			h.Put(Request, authorizer.AttributesRecord{}, Allowed())
			_, _ = h.Get(Request), h.Attributes()
		})
	}
	all.Wait()
	if !h.Get(Request).IsAllowed() {
		t.Error("lost")
	}
}
