package law

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	functions = regexp.MustCompile(`(?m)^func (Test|Fuzz)([A-Z]\w*)\(`)
	quoted    = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
)

// docs/explanation/laws.md names every fuzz target, and nothing that does not exist.
func TestLawsAreListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/laws.md")
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range functions.FindAllStringSubmatch(string(text), -1) {
			name := m[1] + m[2]
			if exist[name] = true; m[1] == "Fuzz" && !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("%s: docs/explanation/laws.md does not say what %s proves", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	listed := quoted.FindAllStringSubmatch(string(page), -1)
	for _, m := range listed {
		if !exist[m[1]] {
			t.Errorf("docs/explanation/laws.md lists %s, which does not exist", m[1])
		}
	}
	if len(listed) < 20 {
		t.Errorf("docs/explanation/laws.md lists %d laws: it is not read rightly", len(listed))
	}
}
