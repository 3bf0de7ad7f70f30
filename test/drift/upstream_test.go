package drift

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files again")

// upstream is one module of Kubernetes as go.mod selects it.
type upstream struct{ path, version, dir string }

// modules looks up where the modules' sources are. The go command is asked instead of the build info because a test
// binary need not link what it reads.
var modules = sync.OnceValues(func() (map[string]upstream, error) {
	// `go test` caches a result until a file that the test has opened changes: go.mod has to be one of them, because
	// the test binary itself does not depend on the versions it selects.
	if _, err := os.ReadFile("../../go.mod"); err != nil {
		return nil, err
	}
	args := []string{"list", "-m", "-f", "{{.Path}}\t{{if .Replace}}{{.Replace.Version}}{{else}}{{.Version}}{{end}}\t{{.Dir}}"}
	cmd := exec.Command("go", append(args, scanned...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w: %s", err, stderr.String())
	}
	found := map[string]upstream{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 3 || f[2] == "" {
			return nil, fmt.Errorf("sources of %q are not in the module cache, run `go mod download`", line)
		}
		found[f[0]] = upstream{path: f[0], version: f[1], dir: f[2]}
	}
	return found, nil
})

func module(t *testing.T, path string) upstream {
	t.Helper()
	all, err := modules()
	if err != nil {
		t.Fatal(err)
	}
	m, ok := all[path]
	if !ok {
		t.Fatalf("module %s is not in the list of scanned modules", path)
	}
	return m
}

// declaration finds a function ("New"), a method ("CompletedConfig.New") or a variable or constant ("var x", "const x")
// in the non-test files of a package directory, and returns a fingerprint of its tokens: comments and layout do not
// count, everything else does.
func declaration(dir, name string) (fingerprint, place string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", "", fmt.Errorf("package is gone: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		if short := name[strings.LastIndexAny(name, ". ")+1:]; !bytes.Contains(text, []byte(short)) {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
		if err != nil {
			return "", "", err
		}
		if node := lookup(parsed, name); node != nil {
			from, to := fset.Position(node.Pos()), fset.Position(node.End())
			return hash(text[from.Offset:to.Offset]), fmt.Sprintf("%s:%d", e.Name(), from.Line), nil
		}
	}
	return "", "", fmt.Errorf("%s is gone", name)
}

func lookup(f *ast.File, name string) ast.Node {
	kind, id, isValue := strings.Cut(name, " ")
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if !isValue && functionName(d) == name {
				return d
			}
		case *ast.GenDecl:
			if !isValue || d.Tok.String() != kind {
				continue
			}
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && v.Names[0].Name == id {
					return v
				}
			}
		}
	}
	return nil
}

// functionName is F for a function and T.F for a method of T or *T.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	recv := d.Recv.List[0].Type
	for {
		switch r := recv.(type) {
		case *ast.StarExpr:
			recv = r.X
		case *ast.IndexExpr:
			recv = r.X
		case *ast.IndexListExpr:
			recv = r.X
		case *ast.Ident:
			return r.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}

// hash fingerprints source text by its tokens.
func hash(text []byte) string {
	var s scanner.Scanner
	fset := token.NewFileSet()
	s.Init(fset.AddFile("", fset.Base(), len(text)), text, nil, 0)
	sum := sha256.New()
	for {
		_, tok, lit := s.Scan()
		if tok == token.EOF {
			return hex.EncodeToString(sum.Sum(nil))[:16]
		}
		if tok == token.SEMICOLON {
			continue // inserted at line ends
		}
		fmt.Fprintf(sum, "%s %s\n", tok, lit)
	}
}

// writeGolden writes a golden file; head becomes comment lines.
func writeGolden(t *testing.T, name, head string, lines []string) {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(head) {
		b.WriteString(strings.TrimRight("# "+strings.TrimSuffix(line, "\n"), " ") + "\n")
	}
	b.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	if err := os.WriteFile(filepath.Join("testdata", name), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readGolden returns the lines of a golden file without its comments.
func readGolden(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatalf("%v: run `make golden`", err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}
