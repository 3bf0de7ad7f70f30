package house

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

const maxLines = 500

// forbiddenNames say nothing about what a package does, or would shadow an upstream package at every call site.
var forbiddenNames = []string{
	"util", "utils", "common", "helper", "helpers", "shared", "types", "manager", "misc", "core", "lib",
	"audit", "authorizer", "admission", "policy",
}

func TestPackageNames(t *testing.T) {
	report(t, badNames(tree(t)))
}

func badNames(files []file) (problems []string) {
	for _, f := range files {
		name := strings.TrimSuffix(f.ast.Name.Name, "_test")
		switch {
		case f.isGenerated(): // named after API groups
		case slices.Contains(forbiddenNames, name) || slices.Contains(forbiddenNames, path.Base(f.dir())):
			problems = append(problems, fmt.Sprintf("%s: package %s: name a package after what it decides or moves; %q says nothing or shadows an upstream package", f.path, name, name))
		case folderOf(f.dir()) != "" && (strings.ToLower(name) != name || strings.Contains(name, "_")):
			problems = append(problems, fmt.Sprintf("%s: package %s: a package name is one lower-case word", f.path, name))
		}
	}
	return problems
}

func TestFilesStaySmall(t *testing.T) {
	report(t, tooLong(tree(t)))
}

func tooLong(files []file) (problems []string) {
	for _, f := range files {
		if f.lines > maxLines && !f.isGenerated() {
			problems = append(problems, fmt.Sprintf("%s has %d lines, more than %d: a file is one concept of 50 to 300 lines, split it by concept", f.path, f.lines, maxLines))
		}
	}
	return problems
}

func TestEveryPackageHasDoc(t *testing.T) {
	report(t, undocumented(tree(t)))
}

func undocumented(files []file) (problems []string) {
	documented := map[string]bool{}
	for _, f := range files {
		if path.Base(f.path) == "doc.go" && f.ast.Doc != nil && len(f.ast.Doc.Text()) > 0 {
			documented[f.dir()] = true
		}
	}
	for _, f := range files {
		if folderOf(f.dir()) != "" && !f.isTest() && !documented[f.dir()] {
			problems = append(problems, fmt.Sprintf("%s has no doc.go with a package comment: say what it decides or moves, and a stage its place in the request path", f.dir()))
		}
	}
	return problems
}

// TestNoInit keeps order explicit: what is registered stands in one list that can be read, not in init functions.
func TestNoInit(t *testing.T) {
	report(t, inits(tree(t)))
}

func inits(files []file) (problems []string) {
	for _, f := range files {
		inside := folderOf(f.dir()) != "" || strings.HasPrefix(f.path, "cmd/")
		if !inside || f.isTest() || f.isGenerated() {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				problems = append(problems, fmt.Sprintf("%s:%d declares init: call it from where it is needed, in an order that can be read", f.path, fset.Position(fn.Pos()).Line))
			}
		}
	}
	return problems
}
