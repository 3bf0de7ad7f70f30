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
		dirs[filepath.Dir(example)] = true
	}
	wanted := map[string]bool{}
	for dir := range dirs {
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
