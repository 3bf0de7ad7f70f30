// Package compare runs a test binary of Kubernetes in one mode after the other and says which tests differ.
package compare

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Difference is a test that differs for a reason.
type Difference struct {
	Package string
	Test    *regexp.Regexp
	Reason  string
}

// Differences is the list of them.
type Differences []Difference

// ReadDifferences reads PACKAGE TEST REASON, one a line.
func ReadDifferences(path string) (Differences, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var all Differences
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.SplitN(line, " ", 3)
		if len(words) < 3 {
			return nil, fmt.Errorf("%s: %q: want PACKAGE TEST REASON", path, line)
		}
		test, err := regexp.Compile("^(?:" + words[1] + ")$")
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		all = append(all, Difference{words[0], test, words[2]})
	}
	return all, nil
}

// Why is the reason for a difference; empty if there is none.
func (d Differences) Why(pkg, test string) string {
	for _, known := range d {
		if known.Package == pkg && known.Test.MatchString(test) {
			return known.Reason
		}
	}
	return ""
}

// Stale lists the differences of a package that are none any more: tests that ran, and passed.
func (d Differences) Stale(pkg string, ran Results) (stale Differences) {
	for _, known := range d {
		if known.Package != pkg {
			continue
		}
		passed, other := 0, 0
		for test, result := range ran {
			switch {
			case !known.Test.MatchString(test):
			case result == "pass":
				passed++
			default:
				other++
			}
		}
		if passed > 0 && other == 0 {
			stale = append(stale, known)
		}
	}
	return stale
}

// Patch applies a patch to the files below a directory, whichever repository that may be in.
func Patch(ctx context.Context, dir, patch string) error {
	cmd := exec.CommandContext(ctx, "git", "apply", "-p1", patch)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not apply: %w\n%s", patch, err, out)
	}
	return nil
}

// Results are by test, subtests included: pass, fail, skip, or crash for one that ended the process.
type Results map[string]string

// Bad lists the tests that failed.
func (r Results) Bad() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for test, result := range r {
			if (result == "fail" || result == "crash") && !yield(test) {
				return
			}
		}
	})
}

// String counts them: top-level tests, and all.
func (r Results) String() string {
	top, all := map[string]int{}, map[string]int{}
	for test, result := range r {
		all[result]++
		if !strings.Contains(test, "/") {
			top[result]++
		}
	}
	var parts []string
	for _, result := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, fmt.Sprintf("%s %d/%d", result, top[result], all[result]))
	}
	return strings.Join(parts, ", ")
}

// TopLevel are the tests that the given ones belong to.
func TopLevel(tests []string) []string {
	var top []string
	for _, test := range tests {
		name, _, _ := strings.Cut(test, "/")
		top = append(top, name)
	}
	slices.Sort(top)
	return slices.Compact(top)
}
