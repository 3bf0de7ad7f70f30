package sink

import (
	"fmt"
	"math/rand"
	"os"
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
		if _, err := s.append([]byte(e), checksum([]byte(e)), time.Now()); err != nil {
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
	if _, err := again.append([]byte(large), checksum([]byte(large)), time.Now()); err == nil || again.cursor.Oversize != 1 {
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

// DA-8: the batch that is under way when its segment is dropped counts as delivered or as dropped, never as both, and
// does not move the cursor.
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

// DA-8: random appends, deliveries, restarts and crashes against a list: nothing is lost that is not counted, nothing
// is reordered, and only what was not acknowledged is repeated.
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
