package drift

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// deleters are the places of upstream that decide what becomes of the dependents of an object that is deleted with
// propagationPolicy Orphan. Everything else that is stored deletes by the generic store, which adds a finalizer for
// that: honoursOrphan in internal/request/enforce relies on it.
var deleters = map[string]string{
	kube + " pkg/registry/core/event/strategy.go eventStrategy.DefaultGarbageCollectionPolicy: Unsupported": "events orphan nothing",
	kube + " pkg/registry/core/namespace/storage/storage.go REST.Delete":                                    "adds the finalizer itself",
	kube + " pkg/registry/batch/job/storage/storage.go REST.Delete":                                         "deletes by the generic store",
	kube + " pkg/registry/scheduling/priorityclass/storage/storage.go REST.Delete":                          "deletes by the generic store",
	extensions + " pkg/registry/customresourcedefinition/etcd.go REST.Delete":                               "adds no finalizer at the first attempt",
	apiserver + " pkg/registry/generic/registry/store.go Store.Delete":                                      "the generic store",
	apiserver + " pkg/registry/generic/registry/store.go shouldOrphanDependents: Unsupported":               "the generic store",
	apiserver + " pkg/registry/generic/registry/store.go shouldDeleteDependentsInForeground: Unsupported":   "the generic store",
	apiserver + " pkg/registry/generic/registry/dryrun.go DryRunnableStorage.Delete":                        "the generic store",
	apiserver + " pkg/registry/generic/registry/corrupt_obj_deleter.go corruptObjectDeleter.Delete":         "an unsafe delete, which is refused to callers with denies",
}

// TestStoragesThatDelete finds storages that do not delete as the generic store does.
func TestStoragesThatDelete(t *testing.T) {
	found := map[string]bool{}
	for _, path := range []string{kube, apiserver, extensions, aggregator} {
		m := module(t, path)
		err := filepath.WalkDir(filepath.Join(m.dir, "pkg", "registry"), func(p string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") || strings.Contains(filepath.ToSlash(p), "/registrytest/") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(m.dir, p)
			if err != nil {
				return err
			}
			for _, decl := range parsed.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok {
					continue
				}
				at := path + " " + filepath.ToSlash(rel) + " " + functionName(fn)
				if fn.Recv != nil && fn.Name.Name == "Delete" {
					found[at] = true
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Unsupported" {
						found[at+": Unsupported"] = true
					}
					return true
				})
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for at := range found {
		if deleters[at] == "" {
			t.Errorf("%s: does it keep the dependents of what is deleted with propagationPolicy Orphan? If not, honoursOrphan in internal/request/enforce must not assume it; then list it here", at)
		}
	}
	for at := range deleters {
		if !found[at] {
			t.Errorf("%s is gone: find what took its place", at)
		}
	}
}
