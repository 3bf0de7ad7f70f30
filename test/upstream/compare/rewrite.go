package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	kubernetes = "k8s.io/kubernetes/"
	// virtual is where changed packages of Kubernetes are while they are built: no such directory exists.
	virtual = "proviso.dev/proviso/test/upstream/kubernetes/"
)

// Package is what `go list -json` says about a package.
type Package struct {
	ImportPath, ForTest                         string
	Imports, TestImports, XTestImports          []string
	EmbedFiles, TestEmbedFiles, XTestEmbedFiles []string
}

// Fields are those of Package.
const Fields = "ImportPath,ForTest,Imports,TestImports,XTestImports,EmbedFiles,TestEmbedFiles,XTestEmbedFiles"

// Packages reads the output of `go list`, without what is compiled again for a test.
func Packages(text string) (map[string]Package, error) {
	all := map[string]Package{}
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var p Package
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		if p.ForTest == "" && !strings.HasSuffix(p.ImportPath, ".test") {
			all[p.ImportPath] = p
		}
	}
}

var patched = regexp.MustCompile(`(?m)^\+\+\+ b/(.*)$`)

// PatchedPackages are the packages that a patch changes.
func PatchedPackages(patch string) (packages []string) {
	for _, f := range patched.FindAllStringSubmatch(patch, -1) {
		packages = append(packages, kubernetes+path.Dir(f[1]))
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// Changed are the packages that have to be compiled for a test because they are changed, or depend on one that is.
// Everything else is Kubernetes as it is, which is compiled already.
func Changed(test string, all map[string]Package, patched []string) []string {
	changed := map[string]bool{test: true}
	for _, p := range patched {
		if _, used := all[p]; used {
			changed[p] = true
		}
	}
	for n := 0; n != len(changed); {
		n = len(changed)
		for name, p := range all {
			if strings.HasPrefix(name, kubernetes) && slices.ContainsFunc(p.Imports, func(i string) bool { return changed[i] }) {
				changed[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// Overlay writes the changed packages, with imports of one another in place of the original ones, and the overlay that
// puts them into the module at root. kube is the patched copy of Kubernetes, dir where to write. It returns the overlay
// and the path by which the test is built.
func Overlay(root, kube, dir, test string, changed []string, all map[string]Package) (overlay, built string, err error) {
	var renames []string
	for _, p := range changed {
		renames = append(renames, `"`+p+`"`, `"`+virtual+strings.TrimPrefix(p, kubernetes)+`"`)
	}
	rename := strings.NewReplacer(renames...)
	replace := map[string]string{}
	for _, p := range changed {
		below := filepath.FromSlash(strings.TrimPrefix(p, kubernetes))
		from, to := filepath.Join(kube, below), filepath.Join(dir, below)
		if err := os.MkdirAll(to, 0o755); err != nil {
			return "", "", err
		}
		files, err := filepath.Glob(filepath.Join(from, "*.go"))
		if err != nil || len(files) == 0 {
			return "", "", fmt.Errorf("%s: no files: %w", p, err)
		}
		for _, file := range files {
			name := filepath.Base(file)
			if p != test && strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return "", "", err
			}
			// The tests look for files beside their source, which is where the copy is.
			if err := write(filepath.Join(to, name), []byte("//line "+file+":1\n"+rename.Replace(string(text)))); err != nil {
				return "", "", err
			}
			replace[filepath.Join(root, "test/upstream/kubernetes", below, name)] = filepath.Join(to, name)
		}
		for _, name := range slices.Concat(all[p].EmbedFiles, all[p].TestEmbedFiles, all[p].XTestEmbedFiles) {
			replace[filepath.Join(root, "test/upstream/kubernetes", below, name)] = filepath.Join(from, name)
		}
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", " ")
	if err != nil {
		return "", "", err
	}
	overlay = filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(test, kubernetes), "/", "-")+".json")
	return overlay, virtual + strings.TrimPrefix(test, kubernetes), write(overlay, text)
}

// write leaves a file alone that has the text already.
func write(file string, text []byte) error {
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return os.WriteFile(file, text, 0o644)
}

// MakeExecutable lets tests run the scripts below a directory, but for those that say they cannot be run: a module has
// no file modes.
func MakeExecutable(dir string) error {
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".sh" || strings.Contains(d.Name(), "not-executable") {
			return err
		}
		return os.Chmod(file, 0o755)
	})
}
