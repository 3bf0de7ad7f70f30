package adversary

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"proviso.dev/proviso/test/adversary/game"
)

// corpus is where cases are kept that have found something once.
const corpus = "testdata/corpus"

// TestAdversary replays what was found before, and draws a few new cases. Both are bounded by their number. HUNT_TIME makes it draw on for that
// long; HUNT_SEED is the first seed, HUNT_THEMES picks parts of the grammar, HUNT_KEEP is a directory for what it finds.
func TestAdversary(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server")
	}
	h := newHunt(t)
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
const daily = 25

func (h *hunt) search(t *testing.T) {
	seed, until := uint64(1), time.Time{}
	if text := os.Getenv("HUNT_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	if text := os.Getenv("HUNT_TIME"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		until = time.Now().Add(d)
	}
	themes := strings.FieldsFunc(os.Getenv("HUNT_THEMES"), func(r rune) bool { return r == ',' })
	known := map[string]bool{}
	begin, cases, steps, unsettled := time.Now(), 0, 0, 0
	for ; cases < daily && until.IsZero() || time.Now().Before(until); seed++ {
		c := game.Draw(seed, h.catalog, themes...)
		cases, steps = cases+1, steps+len(c.Steps)
		found, log := h.play(c)
		if slices.ContainsFunc(log, func(l string) bool { return strings.HasPrefix(l, "given up") }) {
			unsettled++
			t.Logf("seed %d (%s): %s", seed, c.Theme, log[len(log)-1])
		}
		fresh := slices.DeleteFunc(found, func(f finding) bool { return known[c.Theme+f.kind+f.key] })
		for _, f := range fresh {
			known[c.Theme+f.kind+f.key] = true
		}
		if len(fresh) > 0 {
			h.settleFinding(t, seed, c, fresh[0])
		}
		if cases%200 == 0 {
			t.Logf("%v: %d cases, %d steps", time.Since(begin).Round(time.Second), cases, steps)
		}
	}
	t.Logf("%d cases with %d steps in %v, %d could not be set up", cases, steps, time.Since(begin).Round(time.Second), unsettled)
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
	if !again(c) && !again(c) {
		t.Logf("seed %d (%s): seen once and not again: %v", seed, c.Theme, f)
		return
	}
	short := game.Shrink(c, 120, again)
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
