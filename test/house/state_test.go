package house

import (
	"fmt"
	"go/ast"
	"slices"
	"testing"
)

// contextKeys are the packages that may put a value of their own into a context. What travels with a request is a
// section of requestctx.State; the others stand below it and say why where they declare their key.
var contextKeys = []string{"internal/request/requestctx", "internal/engine/expr", "internal/state/journal", "internal/state/selfclient"}

func TestOneRequestState(t *testing.T) {
	report(t, ownContextKeys(tree(t)))
}

// ownContextKeys finds calls of context.WithValue where there is a section for that.
func ownContextKeys(files []file) (problems []string) {
	for _, f := range files {
		if folderOf(f.dir()) == "" || f.isTest() || slices.Contains(contextKeys, f.dir()) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || call.Sel.Name != "WithValue" {
				return true
			}
			if from, ok := call.X.(*ast.Ident); ok && from.Name == "context" {
				problems = append(problems, fmt.Sprintf("%s has a context key of its own: make it a section of requestctx.State, or an argument", f.path))
			}
			return true
		})
	}
	return problems
}

// maxFunctionFields is how many exported fields of structs below internal/ are functions. What is a value may be one: a
// row of a table, a clock, a predicate, a hook of a system. A collaborator is a small interface, given to a
// constructor. Lower the number when you can; a new field needs a reason to raise it.
const maxFunctionFields = 46

func TestCollaboratorsAreInterfaces(t *testing.T) {
	report(t, functionFields(tree(t), maxFunctionFields))
}

// functionFields lists the exported fields that are functions, if there are more than so many.
func functionFields(files []file, most int) (found []string) {
	for _, f := range files {
		if folderOf(f.dir()) == "" || f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				if _, is := field.Type.(*ast.FuncType); !is {
					continue
				}
				for _, name := range field.Names {
					if name.IsExported() {
						found = append(found, fmt.Sprintf("%s has the function field %s: more than %d are too many, make collaborators small interfaces", f.path, name.Name, most))
					}
				}
			}
			return true
		})
	}
	if len(found) <= most {
		return nil
	}
	return found
}
