package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestProofsAreListed: a proof has a name of its own, says what it proves and how long that takes, and the table has
// it.
func TestProofsAreListed(t *testing.T) {
	var out bytes.Buffer
	if err := run(nil, &out); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range proofs {
		if seen[p.name] || p.takes == "" || p.proves == "" {
			t.Errorf("%+v: a proof has a name of its own, a time and a sentence", p)
		}
		seen[p.name] = true
		if !regexp.MustCompile(`(?m)^` + p.name + ` +` + p.takes + ` +`).MatchString(out.String()) {
			t.Errorf("the table does not have %s:\n%s", p.name, &out)
		}
	}
	if err := run([]string{"no-such-proof"}, &out); err == nil || !strings.Contains(err.Error(), "lists them") {
		t.Errorf("an unknown proof: %v", err)
	}
}

// TestScripts: bash can read each script, what a script uses is set, and the directories and tests that it names exist.
func TestScripts(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	used := regexp.MustCompile(`\$([A-Z_]+)`)
	dirs := regexp.MustCompile(`(?:-C |cd | \./)((?:internal|test|bench|hack)[a-z0-9/-]*)`)
	tests := regexp.MustCompile(`-run '?(Test[A-Za-z|]+)`)
	for _, p := range proofs {
		values, err := p.values(nil, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		script := p.text(values)
		if text, err := exec.Command("bash", "-n", "-c", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", p.name, err, text)
		}
		set := append(p.environment(root, values), "PWD=")
		for _, m := range used.FindAllStringSubmatch(script, -1) {
			if !slices.ContainsFunc(set, func(pair string) bool { return strings.HasPrefix(pair, m[1]+"=") }) {
				t.Errorf("%s uses %s, which is not set", p.name, m[0])
			}
		}
		found := dirs.FindAllStringSubmatch(script, -1)
		for _, m := range found {
			if info, err := os.Stat(filepath.Join(root, m[1])); err != nil || !info.IsDir() {
				t.Errorf("%s names %s, which is not a directory", p.name, m[1])
			}
		}
		for _, m := range tests.FindAllStringSubmatch(script, -1) {
			for name := range strings.SplitSeq(m[1], "|") {
				if !slices.ContainsFunc(found, func(dir []string) bool { return hasTest(t, filepath.Join(root, dir[1]), name) }) {
					t.Errorf("%s runs %s, which none of its directories has", p.name, name)
				}
			}
		}
	}
}

// hasTest reports whether a test whose name begins so is in a directory.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && bytes.Contains(text, []byte("func "+name))
	})
}

// TestVariables: an argument wins over the environment, and the environment over the default; empty is not set.
func TestVariables(t *testing.T) {
	p := proof{name: "p", variables: []variable{{"ROUNDS", "20"}, {"TESTFLAGS", ""}}, script: "run $ROUNDS $TESTFLAGS"}
	for _, c := range []struct {
		name       string
		args       []string
		env        string
		wantRounds string
		wantText   string
		wantErr    bool
	}{
		{name: "default", wantRounds: "20", wantText: "run $ROUNDS "},
		{name: "environment", env: "3", wantRounds: "3", wantText: "run $ROUNDS "},
		{name: "argument", args: []string{"ROUNDS=4"}, env: "3", wantRounds: "4", wantText: "run $ROUNDS "},
		{name: "empty argument", args: []string{"ROUNDS="}, wantRounds: "20", wantText: "run $ROUNDS "},
		{name: "flags", args: []string{"TESTFLAGS=-run 'A|B'"}, wantRounds: "20", wantText: "run $ROUNDS -run 'A|B'"},
		{name: "unknown", args: []string{"ROUND=4"}, wantErr: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			values, err := p.values(c.args, func(name string) string { return map[string]string{"ROUNDS": c.env}[name] })
			if (err != nil) != c.wantErr {
				t.Fatal(err)
			}
			if err == nil && (values["ROUNDS"] != c.wantRounds || p.text(values) != c.wantText) {
				t.Errorf("got %v and %q", values, p.text(values))
			}
		})
	}
}
