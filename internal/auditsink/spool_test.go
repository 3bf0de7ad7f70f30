package auditsink

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// quickDir is a temporary directory in memory where there is one: these tests make many small files.
func quickDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "auditsink-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func testSpool(t testing.TB, dir string, change func(*spoolConfig)) *spool {
	t.Helper()
	cfg := spoolConfig{dir: dir, maxBytes: 1 << 20, segmentBytes: 64 << 10}
	if change != nil {
		change(&cfg)
	}
	s, err := openSpool(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	return s
}

func put(t testing.TB, s *spool, events ...string) {
	t.Helper()
	for _, e := range events {
		if err := s.append([]byte(e), checksum([]byte(e)), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

// take reads and acknowledges everything that waits.
func take(t testing.TB, s *spool) []string {
	t.Helper()
	var out []string
	r := reader{spool: s}
	defer r.close()
	for {
		b, err := r.next(7, 4<<10)
		if err != nil {
			t.Fatal(err)
		}
		if b.empty() {
			return out
		}
		for _, e := range b.events {
			out = append(out, string(e))
		}
		s.ack(b, 0)
	}
}

func numbered(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf(`{"n":%d,"pad":%q}`, i, strings.Repeat("x", i%50)))
	}
	return out
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %d events %.300q, want %d events %.300q", what, len(got), got, len(want), want)
	}
}

// DA-8: what is not acknowledged is there after a restart, in order; what is acknowledged is not delivered again.
func TestSpoolSurvivesRestart(t *testing.T) {
	dir := quickDir(t)
	s := testSpool(t, dir, nil)
	put(t, s, numbered(0, 100)...)
	r := reader{spool: s}
	b, err := r.next(30, 1<<20)
	if err != nil || len(b.events) != 30 {
		t.Fatalf("%d events, %v", len(b.events), err)
	}
	s.ack(b, 0)
	if _, err := r.next(30, 1<<20); err != nil { // read, but not acknowledged
		t.Fatal(err)
	}
	// no close: the process is gone
	s = testSpool(t, dir, nil)
	put(t, s, numbered(100, 120)...)
	equal(t, "after a restart", take(t, s), numbered(30, 120))
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	s = testSpool(t, dir, nil)
	equal(t, "after another", take(t, s), nil)
	if s.cursor.Delivered != 120 || s.cursor.dropped() != 0 || s.cursor.Torn != 0 || s.next-s.cursor.Seq != 0 {
		t.Errorf("counts: %+v", s.cursor)
	}
}

// DA-8: a crash can leave a segment cut off at any byte. Every event that is completely there is delivered, what is cut off
// is counted as torn, and new events follow.
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

// DA-8: a spool that is full drops its oldest events, counts them, and stays within its bound.
func TestSpoolFull(t *testing.T) {
	dir := quickDir(t)
	small := func(c *spoolConfig) { c.maxBytes, c.segmentBytes = 32<<10, 4<<10 }
	s := testSpool(t, dir, small)
	events := numbered(0, 3000)
	for i, e := range events {
		put(t, s, e)
		if s.bytes > 32<<10 || diskUse(t, dir) > 32<<10 {
			t.Fatalf("after %d events: %d bytes in the books, %d on disk", i, s.bytes, diskUse(t, dir))
		}
	}
	dropped := s.cursor.Full
	if dropped == 0 || dropped+(s.next-s.cursor.Seq) != 3000 {
		t.Fatalf("dropped %d, spooled %d of 3000", dropped, s.next-s.cursor.Seq)
	}
	again := testSpool(t, dir, small)
	if again.cursor.Full != dropped {
		t.Errorf("after a restart the count is %d, was %d", again.cursor.Full, dropped)
	}
	equal(t, "what is left", take(t, again), events[dropped:])
	// An event that is larger than a segment is refused and counted.
	large := strings.Repeat("x", 5<<10)
	if err := again.append([]byte(large), checksum([]byte(large)), time.Now()); err == nil || again.cursor.Oversize != 1 {
		t.Errorf("oversize: %v, %+v", err, again.cursor)
	}
	put(t, again, "small")
	equal(t, "after one that was too large", take(t, again), []string{"small"})
}

func diskUse(t testing.TB, dir string) (bytes int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), segmentSuffix) {
			bytes += info.Size()
		}
	}
	return bytes
}

// DA-8: the batch that is under way when its segment is dropped counts as delivered or as dropped, never as both, and does
// not move the cursor.
func TestSpoolDropsWhatIsUnderWay(t *testing.T) {
	for _, delivered := range []bool{true, false} {
		t.Run(fmt.Sprint(delivered), func(t *testing.T) { dropUnderWay(t, delivered) })
	}
}

func dropUnderWay(t *testing.T, delivered bool) {
	s := testSpool(t, quickDir(t), func(c *spoolConfig) { c.maxBytes, c.segmentBytes = 32<<10, 4<<10 })
	events := numbered(0, 2000)
	put(t, s, events[:20]...)
	r := reader{spool: s}
	defer r.close()
	b, err := r.next(10, 1<<20)
	if err != nil || len(b.events) != 10 {
		t.Fatalf("%v %v", b, err)
	}
	if s.superseded(b) {
		t.Fatal("superseded while its segment is there")
	}
	put(t, s, events[20:]...)
	if !s.superseded(b) {
		t.Fatal("its segment is dropped, but it does not know")
	}
	// Ten of the dropped events are under way: whether they are lost depends on the sink.
	dropped := s.cursor.Full
	if left := s.next - s.cursor.Seq; dropped+10+left != 2000 {
		t.Errorf("%d dropped, 10 under way, %d left of 2000", dropped, left)
	}
	if saved, _ := loadCursor(s.dir); saved.Full != dropped+10 {
		t.Errorf("saved are %d, should the server die now %d are lost", saved.Full, dropped+10)
	}
	if delivered {
		s.ack(b, 0)
	}
	equal(t, "what is left", take(t, s), events[dropped+10:])
	want := counts{Full: dropped + 10, Delivered: 2000 - dropped - 10}
	if delivered {
		want = counts{Full: dropped, Delivered: 2000 - dropped}
	}
	if s.cursor.counts != want {
		t.Errorf("%+v, want %+v", s.cursor.counts, want)
	}
}

// fullDisk fails writes after a number of bytes, like a disk that is full, and optionally truncation as well.
type fullDisk struct {
	mu         sync.Mutex
	room       int
	noTruncate bool
	noCreate   bool
}

type fullFile struct {
	*os.File
	disk *fullDisk
}

var errNoSpace = errors.New("no space left on device")

func (d *fullDisk) create(path string) (segmentFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.noCreate {
		return nil, errNoSpace
	}
	f, err := createSegment(path)
	if err != nil {
		return nil, err
	}
	return &fullFile{f.(*os.File), d}, nil
}

func (f *fullFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n := min(len(p), f.disk.room)
	f.disk.room -= n
	if _, err := f.File.Write(p[:n]); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, errNoSpace
	}
	return n, nil
}

func (f *fullFile) Truncate(size int64) error {
	if f.disk.noTruncate {
		return errNoSpace
	}
	return f.File.Truncate(size)
}

// DA-8: on a full disk events are dropped and counted; what is there stays deliverable, and it goes on when there is room.
func TestSpoolOnFullDisk(t *testing.T) {
	for _, noTruncate := range []bool{false, true} {
		for room := range 300 {
			dir := quickDir(t)
			disk := &fullDisk{room: room, noTruncate: noTruncate}
			s := testSpool(t, dir, func(c *spoolConfig) { c.create = disk.create })
			events := numbered(0, 12)
			var kept []string
			failed := uint64(0)
			for i, e := range events {
				if i == 9 {
					disk.room = 1 << 20
				}
				if err := s.append([]byte(e), checksum([]byte(e)), time.Now()); err == nil {
					kept = append(kept, e)
				} else if failed++; !errors.Is(err, errNoSpace) {
					t.Fatal(err)
				}
			}
			if failed == 0 || len(kept) < 3 || s.cursor.Disk != failed {
				t.Fatalf("room %d: %d failed, %d kept, counts %+v", room, failed, len(kept), s.cursor)
			}
			if room%2 == 0 {
				s = testSpool(t, dir, nil)
			}
			equal(t, fmt.Sprintf("room %d", room), take(t, s), kept)
			if s.cursor.Corrupt != 0 {
				t.Fatalf("room %d: %+v", room, s.cursor)
			}
		}
	}
}

// DA-8: a directory in which nothing can be created drops and counts; once it can, events are kept again.
func TestSpoolWithoutSegments(t *testing.T) {
	disk := &fullDisk{room: 1 << 20, noCreate: true}
	s := testSpool(t, quickDir(t), func(c *spoolConfig) { c.create = disk.create })
	if err := s.append([]byte("x"), checksum([]byte("x")), time.Now()); err == nil || s.cursor.Disk != 1 {
		t.Fatalf("%v %+v", err, s.cursor)
	}
	disk.noCreate = false
	put(t, s, "y")
	equal(t, "after", take(t, s), []string{"y"})
}

// DA-8: /dev/full is a real full disk.
func TestSpoolOnDevFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	s := testSpool(t, quickDir(t), func(c *spoolConfig) {
		c.create = func(string) (segmentFile, error) { return os.OpenFile("/dev/full", os.O_WRONLY, 0) }
	})
	if err := s.append([]byte("x"), 0, time.Now()); err == nil || s.cursor.Disk != 1 {
		t.Fatalf("%v %+v", err, s.cursor)
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

// DA-8: random appends, deliveries, restarts and crashes against a list: nothing is lost that is not counted, nothing is
// reordered, and only what was not acknowledged is repeated.
func TestSpoolAgreesWithAList(t *testing.T) {
	for seed := range runs(60) {
		rng := rand.New(rand.NewSource(int64(seed)))
		dir := quickDir(t)
		small := func(c *spoolConfig) { c.maxBytes, c.segmentBytes, c.fsync = 16<<10, 2<<10, seed == 0 }
		s := testSpool(t, dir, small)
		r := reader{spool: s}
		n := 0
		var got []string
		for range 150 {
			switch rng.Intn(8) {
			case 0, 1, 2, 3:
				for range 1 + rng.Intn(12) {
					put(t, s, fmt.Sprintf("%d:%s", n, strings.Repeat("y", rng.Intn(300))))
					n++
				}
			case 4, 5:
				b, err := r.next(1+rng.Intn(20), 1+rng.Intn(2000))
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range b.events {
					head, _, _ := strings.Cut(string(e), ":")
					got = append(got, head)
				}
				if rng.Intn(4) > 0 {
					s.ack(b, 0)
				}
			case 6: // the process is killed
				r.close()
				s = testSpool(t, dir, small)
				r = reader{spool: s}
			case 7: // it ends in order
				r.close()
				if err := s.close(); err != nil {
					t.Fatal(err)
				}
				s = testSpool(t, dir, small)
				r = reader{spool: s}
			}
			if s.bytes > 16<<10 {
				t.Fatalf("seed %d: %d bytes", seed, s.bytes)
			}
		}
		r.close()
		for _, e := range take(t, s) {
			head, _, _ := strings.Cut(e, ":")
			got = append(got, head)
		}
		seen := map[int]bool{}
		last := -1
		for _, g := range got {
			var i int
			if _, err := fmt.Sscan(g, &i); err != nil {
				t.Fatal(err)
			}
			if i > last+1 && s.cursor.Full == 0 {
				t.Fatalf("seed %d: %d follows %d though nothing was dropped", seed, i, last)
			}
			last = max(last, i)
			seen[i] = true
		}
		if missing := n - len(seen); uint64(missing) > s.cursor.Full || s.cursor.Corrupt+s.cursor.Disk+s.cursor.Torn != 0 {
			t.Fatalf("seed %d: %d events missing, counts %+v", seed, missing, s.cursor)
		}
	}
}

// DA-8: many requests append at once, with and without fsync; all events arrive and none twice.
func TestSpoolConcurrently(t *testing.T) {
	for _, fsync := range []bool{false, true} {
		s := testSpool(t, quickDir(t), func(c *spoolConfig) { c.fsync = fsync })
		const writers, each = 8, 50
		var wg sync.WaitGroup
		for w := range writers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := range each {
					e := fmt.Sprintf("%d-%d", w, i)
					if err := s.append([]byte(e), checksum([]byte(e)), time.Now()); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		seen := map[string]bool{}
		for len(seen) < writers*each {
			for _, e := range take(t, s) {
				if seen[e] {
					t.Fatalf("%s twice", e)
				}
				seen[e] = true
			}
			if t.Failed() {
				return
			}
		}
		wg.Wait()
	}
}

// Delivered events do not stay on disk while the sink is quiet.
func TestSpoolRecycles(t *testing.T) {
	dir := quickDir(t)
	s := testSpool(t, dir, func(c *spoolConfig) { c.maxBytes, c.segmentBytes = 16<<20, 8<<20 })
	put(t, s, strings.Repeat("x", 300<<10))
	take(t, s)
	if use := diskUse(t, dir); use != 0 {
		t.Errorf("%d bytes are left", use)
	}
	put(t, s, "after")
	equal(t, "after", take(t, s), []string{"after"})
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
