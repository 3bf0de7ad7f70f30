package house

import (
	"os"
	"strings"
	"testing"
)

// TestDependenciesAreReviewed: every module that our code imports is on the page that says why, and under which
// licence.
func TestDependenciesAreReviewed(t *testing.T) {
	page, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	report(t, unreviewed(tree(t), string(page)))
}

func unreviewed(files []file, page string) (problems []string) {
	told := map[string]bool{}
	for _, f := range files {
		for _, path := range f.imports() {
			module := moduleName(path)
			if module == "" || told[module] || strings.Contains(page, "`"+module) {
				continue
			}
			told[module] = true
			problems = append(problems, f.path+" imports "+module+", which docs/dependencies.md does not name: say there what it is for, and its licence")
		}
	}
	return problems
}

// moduleName is the part of an import path that names the module, without its version; "" for Go's own packages
// and ours.
func moduleName(path string) string {
	part := strings.Split(path, "/")
	if !strings.Contains(part[0], ".") || part[0] == "proviso.dev" {
		return ""
	}
	length := 2
	switch part[0] {
	case "github.com", "golang.org", "gopkg.in":
		length = 3
	case "go.etcd.io":
		if part[1] == "etcd" {
			length = 3
		}
	}
	return strings.Join(part[:min(length, len(part))], "/")
}
