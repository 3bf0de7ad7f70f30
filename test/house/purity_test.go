package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"testing"
)

// impure are imports with which an engine package would reach outside of its arguments.
var impure = []string{
	kube, "k8s.io/client-go", "k8s.io/klog", "k8s.io/component-base", "k8s.io/apiserver/pkg/server",
	"net", "os", "io/ioutil", "io/fs", "syscall", "log", "math/rand", "crypto/rand", "testing", "unsafe", "plugin",
	"path/filepath", "database", "embed", "runtime/debug", module + "/internal/platform",
}

// pureExceptions are parts of impure prefixes that do no I/O.
var pureExceptions = []string{"net/netip", "net/url", module + "/internal/platform/editdistance"}

// clock are the functions of package time that read the clock or wait for it.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func TestEngineIsPure(t *testing.T) {
	report(t, impurities(tree(t)))
}

func impurities(files []file) (problems []string) {
	globals := map[string]map[string]bool{}
	for _, f := range files {
		if !pure(f.dir()) || f.isTest() {
			continue
		}
		for _, imp := range f.imports() {
			if underAny(imp, impure) && !slices.Contains(pureExceptions, imp) {
				problems = append(problems, fmt.Sprintf("%s imports %s: the engine is pure, hand it in as an argument", f.path, imp))
			}
		}
		if globals[f.dir()] == nil {
			globals[f.dir()] = map[string]bool{}
		}
		for _, name := range packageVars(f.ast) {
			globals[f.dir()][name] = true
		}
	}
	for _, f := range files {
		if !pure(f.dir()) || f.isTest() || f.isGenerated() {
			continue
		}
		at := func(n ast.Node) string { return fmt.Sprintf("%s:%d", f.path, fset.Position(n.Pos()).Line) }
		written := func(e ast.Expr) {
			if id := rootIdent(e); id != nil && isGlobal(id, f.ast, globals[f.dir()]) {
				problems = append(problems, fmt.Sprintf("%s changes the package variable %s: the engine keeps no state outside of its values", at(e), id.Name))
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				problems = append(problems, at(n)+" starts a goroutine: the engine decides on the caller's")
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && x.Obj == nil && slices.Contains(clock, n.Sel.Name) {
					problems = append(problems, fmt.Sprintf("%s reads the clock with time.%s: the engine gets the time as an argument", at(n), n.Sel.Name))
				}
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						written(e)
					}
				}
			case *ast.IncDecStmt:
				written(n.X)
			}
			return true
		})
	}
	return problems
}

func packageVars(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok || gen.Tok != token.VAR {
			continue
		}
		for _, s := range gen.Specs {
			for _, id := range s.(*ast.ValueSpec).Names {
				if id.Name != "_" {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}

// rootIdent returns x of x, x.f, x[i] and *x.
func rootIdent(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// isGlobal tells a package variable from a local one of the same name: the parser resolves a name to its declaration
// within the file, and leaves names that another file declares unresolved.
func isGlobal(id *ast.Ident, f *ast.File, globals map[string]bool) bool {
	return globals[id.Name] && (id.Obj == nil || id.Obj == f.Scope.Lookup(id.Name))
}
