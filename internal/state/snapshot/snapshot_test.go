package snapshot

import (
	"slices"
	"strings"
	"testing"
)

// fake is a part that notes when it is applied.
type fake struct {
	name    string
	needs   []string
	waiting bool
	applied *[]string
}

func (f *fake) Name() string    { return f.name }
func (f *fake) Needs() []string { return f.needs }
func (f *fake) HasSynced() bool { return !f.waiting }
func (f *fake) Apply(*Snapshot) { *f.applied = append(*f.applied, f.name) }

// Parts are applied after those that they need, in whatever order they were added, and otherwise in the order of
// adding.
func TestPartsAreInOrderOfNeeds(t *testing.T) {
	var applied []string
	part := func(name string, needs ...string) Part { return &fake{name: name, needs: needs, applied: &applied} }
	want := []string{"served", "rules", "fields", "audit"}
	for _, parts := range [][]Part{
		{part("rules", "served"), part("fields", "rules"), part("served"), part("audit")},
		{part("fields", "rules", "served"), part("audit"), part("rules", "served"), part("served")},
	} {
		store := NewStore()
		for _, p := range parts {
			if err := store.Add(p); err != nil {
				t.Fatal(err)
			}
		}
		applied = nil
		store.Publish()
		for i, name := range want[:3] {
			if i > 0 && slices.Index(applied, want[i-1]) > slices.Index(applied, name) {
				t.Errorf("%v: %s comes before %s", applied, name, want[i-1])
			}
		}
		if len(applied) != len(want) || store.Ready() != nil {
			t.Errorf("applied %v, ready %v", applied, store.Ready())
		}
	}
	for name, parts := range map[string][]Part{
		"needs itself": {part("a", "b"), part("b", "a")},
		"two parts":    {part("a"), part("a")},
	} {
		if err := NewStore().Add(parts...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// SV-8: there is no complete snapshot before every part is there and has synced, and none is unsynced again.
func TestSyncedOnceAllPartsAre(t *testing.T) {
	var applied []string
	rules, served := &fake{name: "rules", needs: []string{"served"}, applied: &applied}, &fake{name: "served", waiting: true, applied: &applied}
	store := NewStore()
	expect := func(missing string) {
		t.Helper()
		before := store.Current().Generation
		store.Publish()
		err := store.Ready()
		if store.Current().Synced != (missing == "") || (err == nil) != (missing == "") || err != nil && !strings.HasSuffix(err.Error(), "waiting for "+missing) {
			t.Errorf("synced %v, %v, want to wait for %q", store.Current().Synced, err, missing)
		}
		if store.Current().Generation != before+1 {
			t.Errorf("generation %d after %d", store.Current().Generation, before)
		}
	}
	if store.Current() == nil || store.Current().Synced || store.Ready() == nil {
		t.Error("an empty store is ready")
	}
	if err := store.Add(rules); err != nil {
		t.Fatal(err)
	}
	expect("served") // which is not there at all
	if err := store.Add(served); err != nil {
		t.Fatal(err)
	}
	expect("served")
	served.waiting = false
	expect("")
	served.waiting = true // its connection ended
	expect("")
}
