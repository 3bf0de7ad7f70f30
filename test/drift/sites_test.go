package drift

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scanned are the modules whose code runs inside of the server and may ask an authorizer.
var scanned = []string{kube, apiserver, aggregator, extensions, "k8s.io/pod-security-admission", "k8s.io/component-base", "k8s.io/kubectl"}

// questions are the methods by which an authorizer is asked.
var questions = []string{"Authorize", "ConditionsAwareAuthorize", "EvaluateConditions"}

// answers are what a place can get; the head of the golden file explains them.
var answers = []string{"conditional", "unconditional", "delegates", "implements", "unreachable"}

// undecided marks a place of which nobody has said yet what it gets.
const undecided = "?"

// TestAuthorizeSites: testdata/authorize-sites.txt lists every place of upstream that asks an authorizer with what it
// gets from ours; a place that an upgrade adds, moves or removes fails here.
func TestAuthorizeSites(t *testing.T) {
	said := map[string]string{}
	for _, line := range readGolden(t, "authorize-sites.txt") {
		site, gets, ok := strings.Cut(line, " => ")
		if !ok {
			t.Fatalf("testdata/authorize-sites.txt: %q has no ' => ' between the place and what it gets", line)
		}
		said[strings.TrimSpace(site)] = strings.TrimSpace(gets)
	}
	var lines []string
	for _, site := range authorizeSites(t) {
		gets, known := said[site]
		delete(said, site)
		if *update {
			if !known {
				gets = undecided
			}
			lines = append(lines, site+" => "+gets)
			continue
		}
		switch {
		case !known:
			t.Errorf("upstream asks an authorizer in a place that is not listed: %s. Is it reached in a request, may a condition be honoured there "+
				"(does admission see an object afterwards)? Run `make golden`, then write in testdata/authorize-sites.txt what it gets", site)
		case !slices.ContainsFunc(answers, func(a string) bool { return strings.HasPrefix(gets, a+": ") }):
			t.Errorf("testdata/authorize-sites.txt does not say what %s gets: %q should start with one of %v", site, gets, answers)
		}
	}
	if *update {
		writeGolden(t, "authorize-sites.txt", sitesHead, lines)
		return
	}
	for site := range said {
		t.Errorf("upstream no longer asks an authorizer in %s: find out what took its place, then run `make golden`", site)
	}
}

const sitesHead = `Every place where upstream asks an authorizer, and what it gets from Proviso's.
Kept by hand to the right of =>; the places themselves are written by ` + "`make golden`" + `, a new one gets a question mark and
fails until somebody has decided. Module, file, function: method (how often).

  conditional    the gate answers Allow when the request can become allowed; the enforcer has the last word in admission
  unconditional  the chain folds conditions: a conditional allow is no opinion, a conditional deny denies
  delegates      hands the question on, no decision of its own
  implements     an authorizer that asks itself; conditions cannot come out of it
  unreachable    not part of an API server's request path
`

// authorizeSites finds uses of the questions, calls and method values alike, in non-test code.
func authorizeSites(t *testing.T) []string {
	t.Helper()
	var sites []string
	for _, path := range scanned {
		m := module(t, path)
		err := filepath.WalkDir(m.dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := d.Name()
			if d.IsDir() {
				if p != m.dir && (name == "testdata" || name == "vendor" || name == "third_party" || filepath.Join(m.dir, "test") == p) {
					return filepath.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") || strings.HasSuffix(name, ".pb.go") {
				return nil
			}
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(m.dir, p)
			if err != nil {
				return err
			}
			for site, n := range sitesIn(rel, text) {
				sites = append(sites, fmt.Sprintf("%s %s (%d)", path, site, n))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(sites)
	return sites
}

// sitesIn returns "file function: method" with the number of uses.
func sitesIn(file string, text []byte) map[string]int {
	if !slices.ContainsFunc(questions, func(q string) bool { return bytes.Contains(text, []byte("."+q)) }) {
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return map[string]int{filepath.ToSlash(file) + " does not parse: " + err.Error(): 1}
	}
	found := map[string]int{}
	for _, d := range parsed.Decls {
		where := "package level"
		if fn, ok := d.(*ast.FuncDecl); ok {
			where = functionName(fn)
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(questions, sel.Sel.Name) {
				found[filepath.ToSlash(file)+" "+where+": "+sel.Sel.Name]++
			}
			return true
		})
	}
	return found
}

// TestSitesAreFound: the search sees calls, method values and closures, and not what only looks like one.
func TestSitesAreFound(t *testing.T) {
	got := sitesIn("x.go", []byte(`package x
func (s *S) F() { go func() { s.a.Authorize(nil) }(); g(s.a.Authorize) }
var v = a.EvaluateConditions
func Authorize() { Authorize(); s.Authorized() }
`))
	if len(got) != 2 || got["x.go S.F: Authorize"] != 2 || got["x.go package level: EvaluateConditions"] != 1 {
		t.Errorf("got %v", got)
	}
}
