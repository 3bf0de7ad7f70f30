package drift

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const conformanceDir = "../conformance"

// TestConformanceListsAreComplete: every conformance test of upstream is either run by
// `go run ./hack/prove conformance` or listed with the reason why it cannot, and nothing is listed that upstream does
// not have. A name in skipped.txt that ends in * stands for all that begin with it. // SV-4
func TestConformanceListsAreComplete(t *testing.T) {
	var upstream []struct{ Codename string }
	text, err := os.ReadFile(filepath.Join(module(t, kube).dir, "test/conformance/testdata/conformance.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &upstream); err != nil {
		t.Fatal(err)
	}
	if len(upstream) < 100 {
		t.Fatalf("upstream lists %d conformance tests: the list is read wrongly", len(upstream))
	}
	run, skipped, used := lines(t, "specs.txt"), map[string]string{}, map[string]bool{}
	for line := range lines(t, "skipped.txt") {
		name, reason, ok := strings.Cut(line, "\t")
		if !ok || strings.TrimSpace(reason) == "" {
			t.Errorf("skipped.txt: %q has no reason after a tab", name)
		}
		skipped[name] = reason
	}
	for _, spec := range upstream {
		entry, isSkipped := skips(skipped, spec.Codename)
		switch isRun := run[spec.Codename]; {
		case isRun && isSkipped:
			t.Errorf("%q is in specs.txt and in skipped.txt", spec.Codename)
		case !isRun && !isSkipped:
			t.Errorf("upstream has a new conformance test %q: does it pass without a node? Add it to test/conformance/testdata/specs.txt, or to skipped.txt with the reason", spec.Codename)
		}
		delete(run, spec.Codename)
		used[entry] = true
	}
	for name := range run {
		t.Errorf("specs.txt: upstream has no conformance test %q", name)
	}
	for name := range skipped {
		if !used[name] {
			t.Errorf("skipped.txt: upstream has no conformance test %q", name)
		}
	}
}

// skips finds the entry of skipped.txt that a spec falls under.
func skips(skipped map[string]string, name string) (entry string, ok bool) {
	if _, ok := skipped[name]; ok {
		return name, true
	}
	for entry := range skipped {
		if prefix, ok := strings.CutSuffix(entry, "*"); ok && strings.HasPrefix(name, prefix) {
			return entry, true
		}
	}
	return "", false
}

// TestQuickIsPartOfConformance: what `make verify` runs is a part of the whole list.
func TestQuickIsPartOfConformance(t *testing.T) {
	all := lines(t, "specs.txt")
	for name := range lines(t, "quick.txt") {
		if !all[name] {
			t.Errorf("quick.txt: %q is not in specs.txt", name)
		}
	}
}

// TestNestedModulesAgree: the conformance tests, the benchmarks, the types, the client and the sample webhook are
// modules of their own and must be upgraded together with ours, or they would measure, test and talk to another
// Kubernetes.
func TestNestedModulesAgree(t *testing.T) {
	ours := versions(t, "../..")
	for dir, least := range map[string]int{conformanceDir: 50, "../../bench": 50, "../../api": 20, "../../client": 20, "../../examples/webhook-authorizer": 10} {
		shared := 0
		for path, version := range versions(t, dir) {
			if want, ok := ours[path]; ok {
				shared++
				if version != want {
					t.Errorf("%s/go.mod has %s %s, go.mod has %s: upgrade both together", filepath.Base(dir), path, version, want)
				}
			}
		}
		if shared < least {
			t.Errorf("%s: the two modules share %d dependencies: go.mod is read wrongly", dir, shared)
		}
	}
}

// versions returns what a go.mod selects, replacements included.
func versions(t *testing.T, dir string) map[string]string {
	t.Helper()
	if _, err := os.ReadFile(filepath.Join(dir, "go.mod")); err != nil { // so that the test is not cached over a change
		t.Fatal(err)
	}
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	type version struct{ Path, Version string }
	var mod struct {
		Require []version
		Replace []struct{ Old, New version }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, r := range mod.Require {
		found[r.Path] = r.Version
	}
	for _, r := range mod.Replace {
		found[r.Old.Path] = r.New.Version
	}
	return found
}

func lines(t *testing.T, name string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(conformanceDir, "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line != "" && !strings.HasPrefix(line, "#") {
			found[line] = true
		}
	}
	return found
}
