package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// SV-6: the reference pages that are written by hand name all that the code declares.
func TestReferencesAreComplete(t *testing.T) {
	for page, declared := range map[string]*regexp.Regexp{
		"feature-gates.md":     regexp.MustCompile(`featuregate\.Feature = "(\w+)"`),
		"audit-annotations.md": regexp.MustCompile(`Annotation\w*\s+= "((?:authorization|fieldpermissions|shadow|audit)\.proviso\.dev/[\w-]*)"|"(audit\.proviso\.dev/[\w-]+)"`),
		"cel-variables.md":     regexp.MustCompile(`\bvar[A-Z]\w*\s+= "(\w+)"|field\("(user|uid|groups|extra|userInfo|verb|apiGroup|apiVersion|resource|subresource|name|time|fieldSelector|labelSelector)"`),
	} {
		text, err := os.ReadFile(filepath.Join("../../docs/reference", page))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, file := range sources(t) {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllStringSubmatch(string(code), -1) {
				name := strings.Join(m[1:], "")
				found++
				if !strings.Contains(string(text), "`"+name) {
					t.Errorf("%s does not name %s of %s", page, name, file)
				}
			}
		}
		if found < 5 {
			t.Errorf("%s: %d names are declared: the code is not read rightly", page, found)
		}
	}
}

// sources are the files of the program, without tests.
func sources(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("../../internal", func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
