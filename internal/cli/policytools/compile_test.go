package policytools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// MC-7: every example, with the verdicts on its rules. Set UPDATE to write the goldens again.
func TestExamplesCompile(t *testing.T) {
	examples, err := filepath.Glob("../../../examples/*/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	dirs := map[string]bool{}
	for _, example := range examples {
		dirs[filepath.Dir(example)] = isPolicy(filepath.Dir(example))
	}
	wanted := map[string]bool{}
	for dir, policy := range dirs {
		if !policy {
			continue
		}
		name := filepath.Base(dir)
		golden := filepath.Join("testdata", "compile", name+".txt")
		wanted[golden] = true
		t.Run(name, func(t *testing.T) {
			out, code, said := execute(t, NewCompileCommand, "", "-f", dir, "-o", "report")
			if said != nil {
				out = said.Error() + "\n"
			}
			if got := strings.ReplaceAll(out, dir, name); code == 2 != strings.Contains(got, ": impossible") {
				t.Errorf("exit code %d:\n%s", code, got)
			} else {
				compareGolden(t, golden, got)
			}
		})
	}
	there, err := filepath.Glob("testdata/compile/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, golden := range there {
		if !wanted[golden] {
			t.Errorf("%s belongs to no example", golden)
		}
	}
}

func compareGolden(t *testing.T, golden, got string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(golden), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != got {
		t.Errorf("%s: %v\n%s", golden, err, got)
	}
}

// MC-1, MC-6: two files that are the same each time, and a cluster that has them does not differ.
func TestCompileWritesTwoFiles(t *testing.T) {
	from, first, second := "../../../examples/pv-storage-class/policy.yaml", t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		if out, code, err := execute(t, NewCompileCommand, "", "-f", from, "--out", dir); code != 0 {
			t.Fatalf("%d: %v\n%s", code, err, out)
		}
	}
	for _, name := range []string{"1-policies.yaml", "2-grants.yaml"} {
		a, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, name))
		if err != nil || string(a) != string(b) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	if out, code, err := execute(t, NewCompileCommand, "", "drift", "-f", from, "--objects", first); code != 0 {
		t.Errorf("%d: %v\n%s", code, err, out)
	}
	if out, code, err := execute(t, NewCompileCommand, "", "drift", "-f", from, "--objects", filepath.Join(first, "2-grants.yaml")); code != 2 || !strings.Contains(out, "missing: ValidatingAdmissionPolicy ") {
		t.Errorf("%d: %v\n%s", code, err, out)
	}
}

// MC-2: if anything is impossible, nothing is written, and the exit code is 2. What is accepted is left out.
func TestCompileWritesNothingThatIsImpossible(t *testing.T) {
	from, dir := "../../../examples/team-views", filepath.Join(t.TempDir(), "out")
	out, code, err := execute(t, NewCompileCommand, "", "-f", from, "--out", dir)
	if code != 2 || !strings.Contains(out, "reads under a condition") {
		t.Errorf("%d: %v\n%s", code, err, out)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
	if out, code, err := execute(t, NewCompileCommand, "", "-f", from, "--out", dir, "--accept", "master/public-view,master/team-a-view"); code != 0 {
		t.Errorf("%d: %v\n%s", code, err, out)
	}
	// The commands that need all of it have not failed by what they are about.
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, done := range map[string]string{"drift": "compared", "verify": "verified", "apply": "applied"} {
		out, code, err := execute(t, NewCompileCommand, "", command, "-f", from, "--kubeconfig", kubeconfig)
		if code != 3 || err == nil || !strings.Contains(err.Error(), "nothing was "+done+": a managed cluster cannot have all of this policy") || !strings.Contains(out, "reads under a condition") {
			t.Errorf("%s: %d: %v\n%s", command, code, err, out)
		}
	}
	for _, args := range [][]string{{"--target", "opa"}, {"-o", "xml"}, {"--accept", "master/nobody"}, {"--out", dir, "-o", "report"}} {
		if out, code, err := execute(t, NewCompileCommand, "", append(args, "-f", from)...); code != 3 {
			t.Errorf("%v: %d: %v\n%s", args, code, err, out)
		}
	}
}
