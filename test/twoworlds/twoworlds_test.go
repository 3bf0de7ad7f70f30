package twoworlds

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTwoWorlds: NI-1, NI-2, TK-11, HF-10. It replays the kept cases, and searches for new ones for TWOWORLDS_TIME.
// TWOWORLDS_SEED is the first seed, TWOWORLDS_KEEP a directory for finds, TWOWORLDS_SHRINK how often a find is tried to
// make it short. TWOWORLDS_OPEN=yes finds the open ones again. TWOWORLDS_ACTORS picks one sort of caller.
// TWOWORLDS_CASE plays one file and shows every answer.
func TestTwoWorlds(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts two servers")
	}
	p := newPair(t)
	if file := os.Getenv("TWOWORLDS_CASE"); file != "" {
		f, err := p.play(readCase(t, file), true, func(line string) { t.Log(line) })
		t.Logf("%v, %v", f, err)
		return
	}
	t.Run("kept", func(t *testing.T) { p.kept(t) })
	t.Run("search", func(t *testing.T) { p.search(t) })
}

func readCase(t testing.TB, file string) *Case {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := &Case{}
	if err := json.Unmarshal(raw, c); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return c
}

// kept replays the cases that once showed a difference. One that is marked open has to show it still.
func (p *pair) kept(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no kept cases: %v", err)
	}
	for _, file := range files {
		c := readCase(t, file)
		f, err := p.again(c)
		switch {
		case !c.hidden():
			t.Errorf("%s: the caller may see what the worlds differ in", file)
		case err != nil:
			t.Errorf("%s: %v", file, err)
		case f == nil && c.Open != "":
			t.Errorf("%s: closed: remove the mark %q, and its entry in the table of open finds", file, c.Open)
		case f != nil && c.mark() != f.open:
			t.Errorf("%s (%s): it is marked %q, and shows %q: %v", file, c.Found, c.mark(), f.open, f)
		}
	}
	t.Logf("%d kept cases", len(files))
}

// again plays a case on a fresh cluster, several times if it shows nothing and should.
func (p *pair) again(c *Case) (f *find, err error) {
	for range 3 {
		if f, err = p.play(c, true, nil); err == nil && (f != nil) == (c.Open != "") {
			return f, nil
		}
	}
	return f, err
}

const (
	// daily is how long the search takes where nobody asks for more.
	daily = 30 * time.Second
	tries = 150
)

// search draws cases until the time is up.
func (p *pair) search(t *testing.T) {
	length := daily
	if text := os.Getenv("TWOWORLDS_TIME"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	begin, first := time.Now(), setting(t, "TWOWORLDS_SEED", 1)
	p.steps, p.reached, p.excuses = 0, 0, map[string]int{}
	seen, passed := map[string]bool{}, map[string]int{}
	again := os.Getenv("TWOWORLDS_OPEN") != ""
	var finds, unset, once int
	seed := first
	for ; time.Since(begin) < length; seed++ {
		c := drawCase(seed)
		f, err := p.play(c, false, nil)
		switch {
		case err != nil:
			if unset++; unset > 10+int(seed-first)/10 {
				t.Fatalf("%d of %d cases could not be set up: little is proven; the last is %v", unset, seed-first+1, err)
			}
			t.Logf("seed %d: %v", seed, err)
		case f == nil:
		case f.open != "" && (!again || passed[f.open] > 0):
			passed[f.open]++
		case f.open == "" && seen[f.shape]:
		case p.keep(t, seed, c, f):
			finds++
			seen[f.shape] = true
			passed[f.open]++
		default:
			once++
		}
		if n := seed - first + 1; n%2000 == 0 {
			t.Logf("%v: %d sequences, %d steps, %d finds", time.Since(begin).Round(time.Second), n, p.steps, finds)
		}
	}
	took, n := time.Since(begin), seed-first
	t.Logf("%d sequences with %d steps in %v (%.1f a second), %.0f %% of the steps reached storage; %d finds, %d seen once and not again, %d not set up",
		n, p.steps, took.Round(time.Second), float64(n)/took.Seconds(), 100*float64(p.reached)/float64(max(p.steps, 1)), finds, once, unset)
	t.Logf("passed over as open: %v; allowed by the table: %v", passed, p.excuses)
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

// keep sees a find again, makes it short and keeps it. A find that does not come again is none.
func (p *pair) keep(t *testing.T, seed uint64, c *Case, f *find) bool {
	t.Helper()
	c.Steps = c.Steps[:f.step+1]
	latest := f
	shows := func(c *Case) bool {
		g, err := p.play(c, true, nil)
		same := err == nil && g != nil && g.open == f.open && (f.open != "" || g.shape == f.shape)
		if same {
			latest = g
		}
		return same
	}
	if !shows(c) && !shows(c) { //nolint:staticcheck // it is played twice
		t.Logf("seed %d: seen once and not again: %v", seed, f)
		return false
	}
	short := shrink(c, int(setting(t, "TWOWORLDS_SHRINK", tries)), shows)
	if short.Found = latest.shape; latest.open != "" {
		short.Open = "NI-1 " + latest.open + ": (the cause)"
	}
	raw, _ := json.MarshalIndent(short, "", "  ")
	t.Errorf("seed %d: %v\n%s", seed, latest, raw)
	if dir := os.Getenv("TWOWORLDS_KEEP"); dir != "" {
		name := strings.NewReplacer(" ", "-", "/", "-").Replace(strings.ToLower(f.open + " " + f.shape))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.json", name, seed)), append(raw, '\n'), 0o600); err != nil {
			t.Error(err)
		}
	}
	return true
}
