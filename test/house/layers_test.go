// Package house keeps the layout of the repository: folders below internal/ are rings and imports point down
// (layers_test.go), the engine is pure (purity_test.go), files, packages and words look as they should (files_test.go,
// words_test.go). It reads source text only, so it takes seconds. rules_test.go shows that each rule can fail.
package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	module   = "proviso.dev/proviso"
	internal = module + "/internal/"
	kube     = "k8s.io/kubernetes"
)

// folders are the rings of the house, from the outermost to the innermost. A package imports its own folder and those
// below it, never one above. A new package goes into the folder that says what it is; a new folder needs an ADR.
var folders = []string{
	"cli",      // commands: flags and printing
	"hosts",    // compose, nothing else
	"features", // one package for each feature gate
	"apis",     // what our API groups serve
	"request",  // the path of a request
	"state",    // objects become one immutable snapshot
	"analysis", // pure; about whole policies
	"engine",   // pure; decides
	"platform", // knows no policy
}

// pure reports whether a directory belongs to the folders that only compute.
func pure(dir string) bool { return under(dir, "internal/engine") || under(dir, "internal/analysis") }

// linksKubernetes are the only places that may import k8s.io/kubernetes, which costs minutes to build and ten seconds
// to link. Tests may do so anywhere, for differential tests against upstream's own code.
var linksKubernetes = []string{"internal/hosts/apiserver", "internal/hosts/apiserver/controllers", "internal/request/authorize/noderestriction", "internal/apis/rbacstorage", "internal/hosts/apiserver/authzconfig", "cmd/proviso", "test/upstream/bridge"}

// file is one parsed Go file, with its path relative to the repository.
type file struct {
	path  string
	ast   *ast.File
	text  []string // by line
	lines int
}

func (f file) dir() string  { return path.Dir(f.path) }
func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }
func (f file) isGenerated() bool {
	return strings.HasPrefix(path.Base(f.path), "zz_generated") || ast.IsGenerated(f.ast)
}

func (f file) imports() []string {
	var all []string
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// folderOf returns the folder of internal/ that a directory lies in, or "" outside of internal/.
func folderOf(dir string) string {
	rest, ok := strings.CutPrefix(dir, "internal/")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

// hostOf returns the host that a directory belongs to, such as internal/hosts/sidecar, or "" outside of hosts.
func hostOf(dir string) string {
	rest, ok := strings.CutPrefix(dir, "internal/hosts/")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

var fset = token.NewFileSet()

// tree is every Go file of the repository, those of its nested modules too. Directories without code of ours are left
// out.
func tree(t *testing.T) []file {
	t.Helper()
	files, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(files)
}

// readTree reads the tree once for all tests, which only look at it.
var readTree = sync.OnceValues(func() ([]file, error) {
	root := "../.."
	var files []file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if p != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "proviso-data") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		f, err := parse(filepath.ToSlash(rel), string(text))
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	if err == nil && len(files) < 2 {
		err = fmt.Errorf("found %d Go files below %s: the layer test looks at the wrong place", len(files), root)
	}
	return files, err
})

func parse(name, text string) (file, error) {
	parsed, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	return file{path: name, ast: parsed, text: strings.Split(text, "\n"), lines: strings.Count(text, "\n")}, err
}

// under reports whether the import path or directory p is prefix or lies below it.
func under(p, prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }

func underAny(p string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return under(p, prefix) })
}

func report(t *testing.T, problems []string) {
	t.Helper()
	slices.Sort(problems)
	for _, p := range slices.Compact(problems) {
		t.Error(p)
	}
}

func TestImportsPointDown(t *testing.T) {
	report(t, upward(tree(t)))
}

func upward(files []file) (problems []string) {
	for _, f := range files {
		own := folderOf(f.dir())
		depth := slices.Index(folders, own)
		if own != "" && depth < 0 {
			problems = append(problems, fmt.Sprintf("%s: internal/%s is not one of the folders %v: put the package where it belongs (ARCHITECTURE.md), "+
				"or say in an ADR why the house needs another folder", f.path, own, folders))
			continue
		}
		if f.isTest() {
			continue
		}
		for _, imp := range f.imports() {
			dir, ours := strings.CutPrefix(imp, module+"/")
			other := folderOf(dir)
			switch {
			case under(f.dir(), "api") && under(imp, module) && !under(imp, module+"/api"):
				problems = append(problems, fmt.Sprintf("%s imports %s: api/ holds types only and imports nothing else of ours", f.path, imp))
			case own != "" && (under(imp, module+"/cmd") || under(imp, module+"/test") || under(imp, module+"/bench")):
				problems = append(problems, fmt.Sprintf("%s imports %s: internal packages import neither commands nor tests", f.path, imp))
			case own == "" || !ours || other == "":
			case slices.Index(folders, other) < depth:
				problems = append(problems, fmt.Sprintf("%s imports %s: imports point down, and internal/%s is above internal/%s. "+
					"Turn the dependency round (an interface beside its consumer) or move the code down", f.path, dir, other, own))
			case own == "hosts" && other == "hosts" && hostOf(dir) != hostOf(f.dir()) && hostOf(dir) != "offline":
				problems = append(problems, fmt.Sprintf("%s imports %s: a host does not see another host; cmd/ puts them together", f.path, dir))
			}
		}
	}
	return problems
}

func TestOnlyHostsLinkKubernetes(t *testing.T) {
	report(t, kubernetesLinks(tree(t)))
}

func kubernetesLinks(files []file) (problems []string) {
	for _, f := range files {
		if f.isTest() || under(f.dir(), "test") || under(f.dir(), "bench") || underAny(f.dir(), linksKubernetes) {
			continue
		}
		for _, imp := range f.imports() {
			if under(imp, kube) {
				problems = append(problems, fmt.Sprintf("%s imports %s: only %v and tests may, every other package has to stay quick to build and link", f.path, imp, linksKubernetes))
			}
		}
	}
	return problems
}

// TestClientCommandStaysLight follows imports inside of this module from cmd/kubectl-proviso.
func TestClientCommandStaysLight(t *testing.T) {
	imports := map[string][]string{}
	for _, f := range tree(t) {
		if !f.isTest() {
			imports[f.dir()] = append(imports[f.dir()], f.imports()...)
		}
	}
	const start = "cmd/kubectl-proviso"
	from := map[string]string{start: ""}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, imp := range imports[queue[0]] {
			if under(imp, kube) || under(imp, "go.etcd.io/etcd/server") {
				t.Errorf("%s links %s by way of %s: the client commands must not carry the server", start, imp, queue[0])
			}
			dir, ours := strings.CutPrefix(imp, module+"/")
			if _, seen := from[dir]; ours && !seen {
				from[dir] = queue[0]
				queue = append(queue, dir)
			}
		}
	}
}
