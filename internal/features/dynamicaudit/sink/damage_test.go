package sink

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// DA-8: a crash can leave a segment cut off at any byte. Every event that is completely there is delivered, what is cut
// off is counted as torn, and new events follow.
func TestSpoolCutOffAtEveryByte(t *testing.T) {
	origin := quickDir(t)
	s := testSpool(t, origin, nil)
	events := numbered(0, 6)
	put(t, s, events...)
	text, err := os.ReadFile(s.path(s.segments[0]))
	if err != nil {
		t.Fatal(err)
	}
	var ends []int
	for at, i := 0, 0; i < len(events); i++ {
		at += headerSize + len(events[i])
		ends = append(ends, at)
	}
	base := quickDir(t)
	for cut := 0; cut <= len(text); cut++ {
		dir := filepath.Join(base, fmt.Sprint(cut))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.Base(s.path(s.segments[0])))
		if err := os.WriteFile(name, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		whole, torn := 0, uint64(1)
		for _, end := range ends {
			if end <= cut {
				whole++
			}
		}
		if cut == 0 || slices.Contains(ends, cut) {
			torn = 0
		}
		testSpool(t, dir, nil) // starts, and is killed before its first event
		again := testSpool(t, dir, nil)
		put(t, again, "new")
		equal(t, fmt.Sprintf("cut at %d", cut), take(t, again), append(slices.Clone(events[:whole]), "new"))
		if again.cursor.Torn != torn || again.cursor.dropped() != 0 {
			t.Fatalf("cut at %d: %+v, want %d torn", cut, again.cursor, torn)
		}
		if err := again.remove(); err != nil {
			t.Fatal(err)
		}
	}
}

// DA-8: damage anywhere costs the events that it hits, which are counted, and no other. Damage to a segment that is
// followed by another is counted exactly; at the very end of the last one it can look like a write that was cut off.
func TestSpoolDamagedAtEveryByte(t *testing.T) {
	origin := quickDir(t)
	s := testSpool(t, origin, nil)
	events := numbered(0, 5)
	put(t, s, events...)
	text, err := os.ReadFile(s.path(s.segments[0]))
	if err != nil {
		t.Fatal(err)
	}
	owner := func(at int) int {
		for i, end := 0, 0; i < len(events); i++ {
			if end += headerSize + len(events[i]); at < end {
				return i
			}
		}
		return -1
	}
	base := quickDir(t)
	for _, flip := range []byte{0x01, 0xff} {
		for at := range text {
			for _, followed := range []bool{true, false} {
				dir := filepath.Join(base, fmt.Sprintf("%d-%d-%v", flip, at, followed))
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				damaged := slices.Clone(text)
				damaged[at] ^= flip
				if err := os.WriteFile(filepath.Join(dir, filepath.Base(s.path(s.segments[0]))), damaged, 0o600); err != nil {
					t.Fatal(err)
				}
				if followed {
					next := &spool{spoolConfig: spoolConfig{dir: dir}}
					rec := header{length: 4, seq: 6, sum: checksum([]byte("next"))}.append(nil)
					if err := os.WriteFile(next.path(&segment{first: 6}), append(rec, "next"...), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				hit := owner(at)
				want := slices.Delete(slices.Clone(events), hit, hit+1)
				if followed {
					want = append(want, "next")
				}
				again := testSpool(t, dir, nil)
				put(t, again, "new")
				equal(t, fmt.Sprintf("damage at %d", at), take(t, again), append(want, "new"))
				c := again.cursor
				if c.Corrupt+c.Torn != 1 || followed && c.Corrupt != 1 || hit < len(events)-1 && c.Corrupt+c.Torn != 1 {
					t.Fatalf("damage at %d, followed %v: %+v", at, followed, c)
				}
				if err := again.remove(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// DA-8: whole segments that vanish are counted as well.
func TestSpoolLosesSegments(t *testing.T) {
	dir := quickDir(t)
	s := testSpool(t, dir, func(c *spoolConfig) { c.segmentBytes = 2 << 10 })
	events := numbered(0, 200)
	put(t, s, events...)
	if len(s.segments) < 6 {
		t.Fatalf("%d segments", len(s.segments))
	}
	gone := s.segments[2]
	lost := s.bound(2) - gone.first
	if err := os.Remove(s.path(gone)); err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(events[:gone.first-1], events[gone.first-1+lost:])
	equal(t, "while running", take(t, s), want)
	if s.cursor.Corrupt != lost {
		t.Errorf("lost %d, counted %+v", lost, s.cursor)
	}

	put(t, s, events...)
	first := s.segments[0]
	lost = s.bound(0) - s.cursor.Seq
	if err := os.Remove(s.path(first)); err != nil {
		t.Fatal(err)
	}
	before := s.cursor.Corrupt
	again := testSpool(t, dir, func(c *spoolConfig) { c.segmentBytes = 2 << 10 })
	if got := len(take(t, again)); got != 200-int(lost) {
		t.Errorf("%d events after a restart, want %d", got, 200-int(lost))
	}
	if again.cursor.Corrupt != before+lost {
		t.Errorf("lost %d, counted %+v", lost, again.cursor)
	}
}

// DA-8: a lost or damaged cursor costs repetitions, never events.
func TestSpoolWithoutCursor(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"gone":      os.Remove,
		"truncated": func(p string) error { return os.Truncate(p, 20) },
		"changed":   func(p string) error { return os.WriteFile(p, []byte("{\"seq\":99}\n00000000\n"), 0o600) },
		"empty":     func(p string) error { return os.Truncate(p, 0) },
	} {
		dir := quickDir(t)
		s := testSpool(t, dir, nil)
		put(t, s, numbered(0, 20)...)
		r := reader{spool: s}
		b, err := r.next(10, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		s.ack(b, 0)
		r.close()
		if err := damage(filepath.Join(dir, cursorName)); err != nil {
			t.Fatal(err)
		}
		equal(t, name, take(t, testSpool(t, dir, nil)), numbered(0, 20))
	}
}

// DA-8: a directory that was moved away and back, or files that are not ours, do not stop it.
func TestSpoolIgnoresStrangers(t *testing.T) {
	dir := quickDir(t)
	for _, name := range []string{"x.seg", "00000000000000000007.txt", "-1.seg", "99999999999999999999999.seg"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("hello"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "00000000000000000009.seg"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := testSpool(t, dir, nil)
	put(t, s, "a")
	equal(t, "among strangers", take(t, s), []string{"a"})
}

// FuzzSegment: a segment of any content is read to its end without a panic, and what is appended after it arrives.
func FuzzSegment(f *testing.F) {
	rec := header{length: 1, seq: 1, sum: checksum([]byte("x"))}.append(nil)
	f.Add(append(slices.Clone(rec), 'x'))
	f.Add(append(slices.Clone(rec), rec...))
	f.Add([]byte("\xff\xff\xffP\xffPA1"))
	f.Add(header{length: 1 << 31, seq: 1 << 63}.append(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := quickDir(t)
		name := (&spool{spoolConfig: spoolConfig{dir: dir}}).path(&segment{first: 1})
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s := testSpool(t, dir, nil)
		put(t, s, "after")
		got := take(t, s)
		if len(got) == 0 || got[len(got)-1] != "after" {
			t.Fatalf("%q", got)
		}
	})
}
