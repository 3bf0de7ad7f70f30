package requestctx

import "testing"

func TestNotesTravel(t *testing.T) {
	ctx := WithNotes(t.Context())
	if n := NotesOf(ctx); n.WasGranular() || n.Claims() || n.Admitted() || n.MaySee() {
		t.Error("empty notes say something")
	}
	NotesOf(ctx).Granular()
	NotesOf(ctx).Claim()
	NotesOf(ctx).Admit()
	NotesOf(ctx).See(true)
	if n := NotesOf(ctx); !n.WasGranular() || !n.Claims() || !n.Admitted() || !n.MaySee() {
		t.Error("a note got lost on its way")
	}
	NotesOf(ctx).See(false)
	if NotesOf(ctx).MaySee() {
		t.Error("the last state does not count")
	}
	if n := NotesOf(WithNotes(ctx)); n.WasGranular() || n.Claims() || n.Admitted() || n.MaySee() {
		t.Error("a request sees the notes of another")
	}
}

// A request without notes is one that nobody prepared: every question gets the answer that refuses more.
func TestNoNotesFailClosed(t *testing.T) {
	n := NotesOf(t.Context())
	n.Granular()
	n.Claim()
	n.Admit()
	n.See(true)
	if !n.WasGranular() || !n.Claims() || n.Admitted() || n.MaySee() {
		t.Error("missing notes let something pass")
	}
	if got := n.Keep("key", func() any { return 1 }); got != 1 {
		t.Errorf("made 1, got %v", got)
	}
}

func TestKeepMakesOnce(t *testing.T) {
	n, made := NotesOf(WithNotes(t.Context())), 0
	for range 3 {
		if got := n.Keep("key", func() any { made++; return "value" }); got != "value" {
			t.Errorf("kept %v", got)
		}
	}
	if n.Keep("other", func() any { made++; return nil }); made != 2 {
		t.Errorf("made %d times for two keys", made)
	}
}
