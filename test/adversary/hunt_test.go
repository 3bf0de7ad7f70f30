package adversary

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"proviso.dev/proviso/test/adversary/game"
)

// corpus is where cases are kept that have found something once.
const corpus = "testdata/corpus"

// TestAdversary (TK-11, TM-17) replays what was found before, and draws a few new cases. Both are bounded by their
// number. HUNT_TIME makes it draw on for that long; HUNT_CASES is another number, HUNT_SEED is the first seed,
// HUNT_THEMES picks parts of the grammar, HUNT_KEEP is a directory for what it finds, HUNT_LANES is how many cases are
// played at the same time. HUNT_CASE plays one file and shows what is done.
func TestAdversary(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server")
	}
	h := newHunt(t)
	if file := os.Getenv("HUNT_CASE"); file != "" {
		found, log := h.play(read(t, file))
		t.Logf("%d findings\n%s", len(found), strings.Join(log, "\n"))
		for _, o := range h.last {
			raw, _ := json.Marshal(o)
			t.Logf("%s", raw)
		}
		return
	}
	t.Run("what was found before", func(t *testing.T) {
		files, err := filepath.Glob(corpus + "/*.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			c := read(t, file)
			found, log := h.play(c)
			if given := slices.ContainsFunc(log, func(l string) bool { return strings.HasPrefix(l, "given up") }); len(found) > 0 || given {
				t.Errorf("%s (%s):\n%s", file, c.Found, strings.Join(log, "\n"))
			}
		}
	})
	t.Run("new cases", func(t *testing.T) { h.search(t) })
}

func read(t testing.TB, file string) *game.Case {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := &game.Case{}
	if err := json.Unmarshal(raw, c); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return c
}

// daily is how many cases are drawn where nobody asks for more.
const daily = 12

// search draws cases until there were enough, or the time is up.
func (h *hunt) search(t *testing.T) {
	q := &quest{T: t, until: time.Now(), next: setting(t, "HUNT_SEED", 1), known: map[string]bool{}, begin: time.Now()}
	q.themes = strings.FieldsFunc(os.Getenv("HUNT_THEMES"), func(r rune) bool { return r == ',' })
	q.left = int(setting(t, "HUNT_CASES", daily))
	if text := os.Getenv("HUNT_TIME"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		q.left, q.until = 0, time.Now().Add(d)
	}
	lanes := []*hunt{h}
	for n := 1; n < int(setting(t, "HUNT_LANES", 1)); n++ {
		lanes = append(lanes, h.beside(n))
		h.crowded = true
	}
	var wg sync.WaitGroup
	for _, lane := range lanes {
		wg.Go(func() {
			for seed, ok := q.draw(); ok; seed, ok = q.draw() {
				lane.try(q, seed)
			}
		})
	}
	wg.Wait()
	grants, once, broken := 0, 0, 0
	for _, lane := range lanes {
		grants, once, broken = grants+lane.grants, once+lane.once, broken+lane.broken
	}
	t.Logf("%d cases with %d steps in %v, %d could not be set up; %d times what was asked for was granted, %d times one write used it up, %d requests passed because the glass was broken",
		q.cases, q.steps, time.Since(q.begin).Round(time.Second), q.unsettled, grants, once, broken)
}

func setting(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// quest is a search on one or several lanes.
type quest struct {
	*testing.T
	themes []string
	begin  time.Time
	until  time.Time

	mu                      sync.Mutex
	next                    uint64
	left                    int
	known                   map[string]bool
	cases, steps, unsettled int
}

// draw is the next seed; false when it is enough.
func (q *quest) draw() (uint64, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left--; q.left < 0 && !time.Now().Before(q.until) {
		return 0, false
	}
	if q.unsettled > 10+q.cases/10 {
		q.Errorf("%d of %d cases could not be set up: little is proven", q.unsettled, q.cases)
		return 0, false
	}
	q.next++
	return q.next - 1, true
}

// first tells of the findings of a case which are new.
func (q *quest) first(c *game.Case, found []finding, gaveUp bool) []finding {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cases, q.steps = q.cases+1, q.steps+len(c.Steps); q.cases%100 == 0 {
		q.Logf("%v: %d cases, %d steps", time.Since(q.begin).Round(time.Second), q.cases, q.steps)
	}
	if gaveUp {
		q.unsettled++
	}
	var fresh []finding
	for _, f := range found {
		if id := c.Theme + f.kind + f.key; !q.known[id] {
			q.known[id] = true
			fresh = append(fresh, f)
		}
	}
	return fresh
}

func (h *hunt) try(q *quest, seed uint64) {
	c := game.Draw(seed, h.catalog, q.themes...)
	found, log := h.play(c)
	gaveUp := len(log) > 0 && strings.HasPrefix(log[len(log)-1], "given up")
	if gaveUp {
		q.Logf("seed %d (%s): %s", seed, c.Theme, log[len(log)-1])
	}
	if os.Getenv("HUNT_VERBOSE") != "" {
		q.Logf("seed %d (%s)\n%s", seed, c.Theme, strings.Join(log, "\n"))
	}
	if fresh := q.first(c, found, gaveUp); len(fresh) > 0 {
		h.settleFinding(q.T, seed, c, fresh[0])
	}
}

// settleFinding sees a finding again, makes it short and keeps it.
func (h *hunt) settleFinding(t *testing.T, seed uint64, c *game.Case, f finding) {
	t.Helper()
	var story []string
	again := func(c *game.Case) bool {
		found, log := h.play(c)
		same := slices.ContainsFunc(found, func(x finding) bool { return x.kind == f.kind && x.key == f.key })
		if same {
			story = log
		}
		return same
	}
	if seen := again(c) || again(c); !seen { //nolint:staticcheck // it is played twice
		t.Logf("seed %d (%s): seen once and not again: %v", seed, c.Theme, f)
		return
	}
	t.Logf("seed %d (%s): %v; making it short", seed, c.Theme, f)
	short := game.Shrink(c, int(setting(t, "HUNT_SHRINK", 60)), again)
	short.Found = f.String()
	raw, _ := json.MarshalIndent(short, "", "  ")
	t.Errorf("seed %d (%s): %v\n%s\n%s", seed, c.Theme, f, strings.Join(story, "\n"), raw)
	if dir := os.Getenv("HUNT_KEEP"); dir != "" {
		name := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, strings.ToLower(f.kind+"-"+f.key))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.json", c.Theme, name, seed)), append(raw, '\n'), 0o600); err != nil {
			t.Error(err)
		}
	}
}
