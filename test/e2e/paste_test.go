package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// step is a block of shell commands of a tour and what they print.
type step struct{ script, want string }

var block = regexp.MustCompile("(?s)```(sh|text)\n(.*?)```")

// tourSteps reads the blocks between the tour's markers. A text block is the output of the sh block before it.
func tourSteps(t *testing.T, markdown string) []step {
	t.Helper()
	_, rest, ok := strings.Cut(markdown, "<!-- tour:begin -->")
	tour, _, ok2 := strings.Cut(rest, "<!-- tour:end -->")
	if !ok || !ok2 {
		t.Fatal("there is no tour between its markers")
	}
	var steps []step
	for _, m := range block.FindAllStringSubmatch(tour, -1) {
		if m[1] == "sh" {
			steps = append(steps, step{script: m[2]})
			continue
		}
		if len(steps) == 0 || steps[len(steps)-1].want != "" {
			t.Fatalf("output without commands:\n%s", m[2])
		}
		steps[len(steps)-1].want = m[2]
	}
	return steps
}

// SV-12: the README's tour works as written, line by line, and prints what it says it prints.
func TestReadmeTour(t *testing.T) {
	markdown, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := tourSteps(t, string(markdown))
	if len(steps) < 5 {
		t.Fatalf("the tour has %d steps", len(steps))
	}

	dir := tempDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary(t), filepath.Join(dir, "bin", "proviso")); err != nil {
		t.Fatal(err)
	}
	serve(t, filepath.Join(dir, "proviso-data"))

	// One shell for the whole tour, as a reader has one terminal. Each step ends with a mark.
	const mark = "@@ end of step @@"
	var script strings.Builder
	for _, s := range steps {
		script.WriteString(s.script + "\necho '" + mark + "'\n")
	}
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the tour stopped: %v", err)
	}
	got := strings.Split(string(out), mark+"\n")
	for i, s := range steps {
		if i >= len(got) {
			t.Fatalf("step %d was not reached:\n%s\nafter:\n%s", i+1, s.script, out)
		}
		if !sameOutput(s.want, got[i]) {
			t.Errorf("step %d prints something else.\n--- commands\n%s--- README\n%s--- printed\n%s", i+1, s.script, s.want, got[i])
		}
	}
}

// sameOutput compares line by line; … stands for anything within a line.
func sameOutput(want, got string) bool {
	w, g := strings.Split(strings.TrimSpace(want), "\n"), strings.Split(strings.TrimSpace(got), "\n")
	if len(w) != len(g) {
		return false
	}
	for i := range w {
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(w[i], " ")), "…", ".*") + "$"
		if !regexp.MustCompile(pattern).MatchString(strings.TrimRight(g[i], " ")) {
			return false
		}
	}
	return true
}
