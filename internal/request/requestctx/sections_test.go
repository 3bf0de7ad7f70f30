package requestctx

import (
	"context"
	"testing"
	"time"

	"proviso.dev/proviso/internal/engine/shadowrule"
	"proviso.dev/proviso/internal/state/snapshot"
)

type decided bool

func (d decided) IsDecided() bool { return bool(d) }

type collects struct{ got int }

func (c *collects) Collect(shadowrule.ID, string, string) { c.got++ }

// What one stage leaves, a later one finds: behind the handler's own contexts, and in questions by another snapshot.
func TestSectionsGoOn(t *testing.T) {
	type other struct{}
	collector := &collects{}
	ctx := WithCollector(WithDefinition(WithNotes(With(t.Context(), nil)), &Definition{Annotation: "a"}), collector)
	From(ctx).Reads(decided(true))
	NotesOf(ctx).Granular()
	for name, ctx := range map[string]context.Context{
		"itself": ctx, "a context of a handler": context.WithValue(ctx, other{}, 1), "one without its deadline": context.WithoutCancel(ctx),
		"another snapshot": With(ctx, &snapshot.Snapshot{}),
	} {
		if d := DefinitionOf(ctx); d == nil || d.Annotation != "a" {
			t.Errorf("%s: definition %+v", name, d)
		}
		if r := From(ctx).Reading(); r == nil || !r.IsDecided() {
			t.Errorf("%s: reading %v", name, r)
		}
		if CollectorOf(ctx) != Collector(collector) || !NotesOf(ctx).WasGranular() {
			t.Errorf("%s: the collector or a note got lost", name)
		}
	}
	if newer, _ := WithAtLeast(ctx, nil, time.Time{}, "x"); DefinitionOf(newer) == nil {
		t.Error("a request for newer policy loses its sections")
	}
}

// A section that nobody has filled is nil, and a state that only holds sections denies.
func TestSectionsBeginEmpty(t *testing.T) {
	for name, ctx := range map[string]context.Context{"no state": t.Context(), "empty": With(t.Context(), nil)} {
		if DefinitionOf(ctx) != nil || From(ctx).Reading() != nil || CollectorOf(ctx) != nil {
			t.Errorf("%s: a section of nothing", name)
		}
	}
	s := From(WithDefinition(t.Context(), &Definition{}))
	if s == nil || s.Snapshot != nil || s.Get(Request).IsAllowed() || s.Attributes() != nil {
		t.Errorf("a state of sections: %+v", s)
	}
	if From(WithDefinition(t.Context(), nil)).Reading() != nil {
		t.Error("sections mix")
	}
}

// Two requests share nothing.
func TestSectionsAreOfOneRequest(t *testing.T) {
	a, b := With(t.Context(), nil), With(t.Context(), nil)
	if WithDefinition(a, &Definition{Versions: true}); DefinitionOf(b) != nil {
		t.Error("a request sees the definition of another")
	}
}
