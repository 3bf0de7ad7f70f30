package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	values := []float64{9, 1, 3, 7, 5}
	for q, want := range map[float64]float64{0: 1, 0.25: 3, 0.5: 5, 0.75: 7, 1: 9} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := median([]float64{1, 2}); got != 1.5 {
		t.Errorf("median %v", got)
	}
	if got := spread(values); got != 80 {
		t.Errorf("spread %v, want 80", got)
	}
	if median(nil) != 0 || spread(nil) != 0 || spread([]float64{0, 0}) != 0 {
		t.Error("nothing has a median or a spread")
	}
}

// A line has the form that readers and scripts expect.
func TestLine(t *testing.T) {
	r := result{Name: "authorize-allow", N: 100, Unit: "ns", Proviso: 250, Peer: "upstream", PeerIs: 12_500, Ratio: 50, Spread: 3.4}
	if got, want := r.String(), "bench authorize-allow n=100 proviso=250ns upstream=12.5µs ratio=50 spread=3%"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// SV-11: the sides alternate, and a wrong answer ends the measure without a line.
func TestCompare(t *testing.T) {
	var lines []result
	b := &bench{rounds: 4, turn: time.Nanosecond, match: regexp.MustCompile("^wanted"), emit: func(r result) error { lines = append(lines, r); return nil }}
	var order strings.Builder
	mark := func(name string) side {
		return side{name, func() error {
			order.WriteString(name[:1])
			for range 1000 {
				processorTime()
			}
			return nil
		}}
	}
	if err := b.compare("wanted", 7, mark("proviso"), mark("upstream")); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 1 || lines[0].N != 7 || lines[0].Peer != "upstream" || lines[0].Proviso <= 0 || lines[0].Ratio <= 0 {
		t.Errorf("lines %v", lines)
	}
	if rounds := order.String(); !strings.HasSuffix(rounds, "puuppuup") {
		t.Errorf("order %s", rounds)
	}
	// A peer that takes no part has a line that says why.
	if err := b.compare("wanted", 8, mark("proviso"), absent("slow", "loading takes over 1s")); err != nil {
		t.Fatal(err)
	}
	if got := lines[1].String(); !strings.HasSuffix(got, " slow=skipped: loading takes over 1s") {
		t.Errorf("line %q", got)
	}
	lines = lines[:1]
	wrong := side{"upstream", func() error { return errors.New("wrong answer") }}
	if err := b.compare("wanted", 7, mark("proviso"), wrong); err == nil || !strings.Contains(err.Error(), "wanted n=7: upstream: wrong answer") {
		t.Errorf("error %v", err)
	}
	if err := b.compare("other", 7, mark("proviso"), wrong); err != nil || len(lines) != 1 {
		t.Errorf("a measure that nobody asked for: %v, %v", err, lines)
	}
}

func TestRun(t *testing.T) {
	for _, args := range [][]string{{"-o", "xml"}, {"-run", "("}, {"extra"}, {"-unknown"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: got no error", args)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-quick", "-o", "json", "-run", "^audit-level$"}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 {
		t.Fatalf("got %q", out.String())
	}
	for _, line := range lines {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Name != "audit-level" || r.Proviso <= 0 || r.Peer != "upstream-one-policy" {
			t.Errorf("%s: %v", line, err)
		}
	}
	replayed(t, out.Bytes())
}

// What was measured once can be shown again, and drawn.
func replayed(t *testing.T, measured []byte) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "results.json")
	if err := os.WriteFile(file, measured, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-from", file, "-o", "json", "-svg", dir}, &out); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), measured) {
		t.Errorf("shown again:\n%s\nfirst:\n%s", out.Bytes(), measured)
	}
	picture, err := os.ReadFile(filepath.Join(dir, "sinks.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Proviso", "upstream-one-policy", "audit sinks"} {
		if !strings.Contains(string(picture), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if others, err := filepath.Glob(filepath.Join(dir, "*.svg")); err != nil || len(others) != 1 {
		t.Errorf("pictures of what was not measured: %v, %v", others, err)
	}
}

// Over 1 means that Proviso is better, whatever is measured.
func TestRatio(t *testing.T) {
	for _, c := range []struct {
		unit          string
		proviso, peer float64
		want          float64
	}{{"ns", 2, 4, 2}, {"B", 4, 2, 0.5}, {"/s", 4, 2, 2}, {"%", 1, 2, 0.5}, {"ns", 0, 4, 0}, {"/s", 4, 0, 0}} {
		if got := ratio(result{Unit: c.unit, Proviso: c.proviso, PeerIs: c.peer}); got != c.want {
			t.Errorf("%+v: ratio %v", c, got)
		}
	}
}
