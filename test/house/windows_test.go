package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// onWindows are the names of package syscall that Windows has as well, as far as we use them.
var onWindows = []string{"EADDRINUSE", "EADDRNOTAVAIL", "EWOULDBLOCK", "RawConn", "SIGINT", "SIGTERM"}

// OP-1: kubectl-proviso is released for Windows. Nothing that it is built of asks for what only Unix has.
func TestThePluginIsForWindowsToo(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles", "./cmd/kubectl-proviso")
	list.Dir, list.Env = "../..", append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(p.ImportPath, "proviso.dev/") {
			continue
		}
		for _, name := range p.GoFiles {
			looked++
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "syscall" && !slices.Contains(onWindows, s.Sel.Name) {
						t.Errorf("%s/%s uses syscall.%s: put it into a file for unix, and say in another what holds elsewhere", p.ImportPath, name, s.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if looked < 100 {
		t.Errorf("only %d files were looked at", looked)
	}
}
