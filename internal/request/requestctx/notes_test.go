package requestctx

import "testing"

func TestNotesTravel(t *testing.T) {
	ctx := WithNotes(t.Context())
	if n := NotesOf(ctx); n.WasGranular() || n.Claims() || n.Ledger() != nil {
		t.Error("empty notes say something")
	}
	NotesOf(ctx).Granular()
	NotesOf(ctx).Claim()
	NotesOf(ctx).Hold(NewLedger(false))
	if n := NotesOf(ctx); !n.WasGranular() || !n.Claims() || n.Ledger() == nil {
		t.Error("a note got lost on its way")
	}
	if n := NotesOf(WithNotes(ctx)); n.WasGranular() || n.Claims() || n.Ledger() != nil {
		t.Error("a request sees the notes of another")
	}
}

// A request without notes is one that nobody prepared: every question gets the answer that refuses more.
func TestNoNotesFailClosed(t *testing.T) {
	n := NotesOf(t.Context())
	n.Granular()
	n.Claim()
	n.Hold(NewLedger(false))
	if !n.WasGranular() || !n.Claims() || n.Ledger() != nil {
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
