package twoworlds

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDrawnCases: NI-2. A seed always gives the same case, the caller may never see what the worlds differ in, and a
// case has 1 to 12 steps.
func TestDrawnCases(t *testing.T) {
	verbs := map[string]int{}
	for seed := range uint64(2000) {
		c := drawCase(seed)
		if n := len(c.Steps); !c.hidden() || n < 1 || n > 12 {
			t.Fatalf("seed %d: %d steps, the change is hidden: %v: %s", seed, n, c.hidden(), text(c))
		}
		if again := drawCase(seed); text(c) != text(again) {
			t.Fatalf("seed %d gives two cases:\n%s\n%s", seed, text(c), text(again))
		}
		for _, s := range c.Steps {
			verbs[s.Method]++
		}
	}
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		if verbs[method] < 300 {
			t.Errorf("only %d of the steps are a %s", verbs[method], method)
		}
	}
}

// TestAllowedDifferences: NI-1. The law allows six differences, and each has a reason.
func TestAllowedDifferences(t *testing.T) {
	if len(allowed) != 6 {
		t.Errorf("the table has %d rows; the law has 6", len(allowed))
	}
	for _, r := range allowed {
		if r.what == "" || r.why == "" {
			t.Errorf("a row without a reason: %q", r.what)
		}
	}
	for before, after := range map[string]string{
		`conflict: uid 1a6750b4-12f0-405d-9d3d-e91fa75bb6df, revision 1234`: `conflict: uid …, revision …`,
		`made-12345 at 2026-11-17T12:58:02Z on 10.0.0.108`:                  `… at … on …`,
		`theirs1 holds 7 values, the last is value-of-theirs1`:              `theirs1 holds 7 values, the last is value-of-theirs1`,
	} {
		if got := plain(before); got != after {
			t.Errorf("%q became %q, want %q", before, got, after)
		}
	}
}

// TestOpenFindsAreKept: every open find has a cause and a kept case, and every mark of a kept case has its entry.
func TestOpenFindsAreKept(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	marks := map[string]bool{}
	for _, file := range files {
		if c := readCase(t, file); c.Open != "" {
			marks[c.mark()] = true
		}
	}
	for _, o := range open {
		if o.cause == "" || !marks[o.name] {
			t.Errorf("%s has no kept case, or no cause", o.name)
		}
		delete(marks, o.name)
	}
	for name := range marks {
		t.Errorf("kept cases are marked %s, which the table does not have", name)
	}
}

// mark is the name of the open find that a kept case shows: the second word of "REQUIREMENT NAME: CAUSE".
func (c *Case) mark() string {
	front, _, _ := strings.Cut(c.Open, ":")
	_, name, _ := strings.Cut(front, " ")
	return name
}
