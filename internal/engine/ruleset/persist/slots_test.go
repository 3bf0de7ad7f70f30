package persist

import "testing"

// A number stays what it was in a copy that somebody reads, whatever is done with it later; and it is given out again
// only when it was given back.
func TestSlotsVersions(t *testing.T) {
	var s Slots[string, int]
	first := new(Owner)
	var ids []uint32
	for i := range 3 * chunkSize {
		id := s.Alloc(first, string(rune('a'+i%26)))
		s.Set(first, id, &i)
		s.Refer(first, id, 2)
		ids = append(ids, id)
	}
	old := s
	second := new(Owner)
	s.Set(second, ids[1], nil)
	s.Refer(second, ids[2], -2)
	s.Release(second, ids[3])
	again := s.Alloc(second, "again")
	if *old.Get(ids[1]) != 1 || old.Refs(ids[2]) != 2 || old.Key(ids[3]) != "d" || old.Len() != len(ids) || old.Missing(ids[1]) {
		t.Error("the copy has changed")
	}
	if s.Get(ids[1]) != nil || !s.Missing(ids[1]) || s.Refs(ids[2]) != 0 || s.Missing(ids[2]) || again != ids[3] || s.Key(again) != "again" || s.Get(again) != nil || s.Refs(again) != 0 {
		t.Error("the changes are not there")
	}
	s.Release(second, again)
	if s.Len() != len(ids)-1 || s.Key(again) != "" || s.Missing(again) {
		t.Errorf("%d numbers are in use, the free one belongs to %q", s.Len(), s.Key(again))
	}
	third, fourth := s, s
	if a, b := third.Alloc(new(Owner), "x"), fourth.Alloc(new(Owner), "y"); a != b || third.Key(a) != "x" || fourth.Key(b) != "y" || s.Key(again) != "" {
		t.Error("two edits of one state have met")
	}
}
