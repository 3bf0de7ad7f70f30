// Package internal_test keeps the house in order: which package belongs to which ring and what a ring may import
// (layers_test.go), that the engine is pure (purity_test.go), what files and packages look like (files_test.go). It
// reads source text only, so it takes milliseconds. rules_test.go shows that each rule can fail.
package internal_test

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
	"testing"
)

const (
	module   = "proviso.dev/proviso"
	internal = module + "/internal/"
	kube     = "k8s.io/kubernetes"
)

// ring is a layer of the house. A package imports its own ring and the rings listed for it, never one further out.
type ring string

const (
	engine     ring = "engine"     // pure: no I/O, no clock, no goroutines, no changing globals
	stage      ring = "stage"      // adapts the engine to one seam of Kubernetes
	systems    ring = "system"     // bundles stages into one thing that can be switched on
	foundation ring = "foundation" // what a host stands on and no decision depends on
	filed      ring = "filed"      // composes systems over files, for the hosts that are commands
	host       ring = "host"       // composes, nothing else
)

// rings says where each directory directly below internal/ belongs. Sub-packages belong to their parent's ring.
var rings = map[string]ring{
	"expr": engine, "ruleset": engine, "whocan": engine, "fieldperm": engine, "protect": engine, "auditrule": engine,
	"restrict": engine, "compare": engine, "plan": engine, "lint": engine, "matrix": engine, "suggest": engine, "fieldexpr": engine, "connection": engine, "spelling": engine, "narrow": engine, "revision": engine,

	"snapshot": stage, "authorize": stage, "handoff": stage, "enforce": stage, "review": stage, "inquire": stage, "auditsink": stage, "registry": stage,
	"webhookauthz": stage, "crdschema": stage, "schemadoc": stage, "notes": stage, "shadow": stage, "source": stage, "served": stage, "loopback": stage, "withhold": stage,
	"statusreport": stage, "settle": stage, "nodelimit": stage, "refusal": stage, "rbacguard": stage, "hooks": stage, "visible": stage, "fresh": stage, "journal": stage,

	"system": systems, "ground": systems, "conditional": systems, "policies": systems, "attributes": systems, "fields": systems, "auditing": systems,
	"lineup": systems, "reads": systems, "configured": systems,

	"pki": foundation, "localetcd": foundation, "controllers": foundation, "replicas": foundation, "release": foundation, "logfile": foundation,
	"durable": foundation, "progress": foundation,

	"server": host, "offline": filed, "recorded": filed, "replay": filed, "sidecar": host, "tools": host, "cli": host, "backup": host, "docsite": host, "explorer": host,
}

// mayImport lists the rings that a ring sees. A host does not see another host: cmd/ puts them together, which keeps
// kubectl-proviso free of the server's weight.
var mayImport = map[ring][]ring{
	engine:     {engine},
	stage:      {engine, stage},
	foundation: {foundation},
	systems:    {engine, stage, systems},
	filed:      {engine, stage, systems, filed},
	host:       {engine, stage, systems, foundation, filed},
}

// open are foundations that stages and systems use, too: they know nothing of requests and policy.
var open = []string{"durable"}

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

// ringDir returns the directory below internal/ that decides the ring, or "" outside of internal/.
func ringDir(dir string) string {
	rest, ok := strings.CutPrefix(dir, "internal/")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

var fset = token.NewFileSet()

// tree parses every Go file of the repository, those of its nested modules too. Directories without code of ours are
// left out.
func tree(t *testing.T) []file {
	t.Helper()
	root := ".."
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
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 2 {
		t.Fatalf("found %d Go files below %s: the layer test looks at the wrong place", len(files), root)
	}
	return files
}

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

func TestImportsNeverPointOutward(t *testing.T) {
	report(t, outward(tree(t)))
}

func outward(files []file) (problems []string) {
	for _, f := range files {
		own := ringDir(f.dir())
		if own != "" && rings[own] == "" {
			problems = append(problems, fmt.Sprintf("internal/%s is in no ring: decide what it is and add it to rings in internal/layers_test.go — "+
				"engine (pure, decides), stage (adapts the engine to one seam), system (bundles stages into what can be switched on), foundation (a host stands on it, decides nothing) or host (composes); "+
				"if its code belongs to an existing package, move it there, and say why in an ADR if the layout changes", own))
			continue
		}
		if f.isTest() {
			continue
		}
		for _, imp := range f.imports() {
			rest, ours := strings.CutPrefix(imp, internal)
			other, _, _ := strings.Cut(rest, "/")
			switch {
			case under(f.dir(), "api") && under(imp, module) && !under(imp, module+"/api"):
				problems = append(problems, fmt.Sprintf("%s imports %s: api/ holds types only and imports nothing else of ours", f.path, imp))
			case own != "" && (under(imp, module+"/cmd") || under(imp, module+"/test") || under(imp, module+"/bench")):
				problems = append(problems, fmt.Sprintf("%s imports %s: internal packages import neither commands nor tests", f.path, imp))
			case own == "" || !ours || other == own || rings[other] == "" || slices.Contains(open, other) && rings[own] != engine: // the last is reported once, at its own files
			case !slices.Contains(mayImport[rings[own]], rings[other]):
				problems = append(problems, fmt.Sprintf("%s imports internal/%s: ring %s may import %v, not %s. "+
					"Turn the dependency round (an interface beside its consumer) or move the code inward", f.path, other, rings[own], mayImport[rings[own]], rings[other]))
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
