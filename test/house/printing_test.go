package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// NI-7: commands print through one package, which keeps text of others in its line.
func TestCommandsPrintThroughOnePackage(t *testing.T) {
	const root = "../../internal/cli"
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "docsite": // it prints nothing but our own documents
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, other := range []string{"fmt.Fprint", "fmt.Print", "os.Stdout", "os.Stderr"} {
			if strings.Contains(string(text), other) {
				t.Errorf("%s uses %s: print with platform/terminal", path, other)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
