package compare

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// SV-13: what depends on a changed package is compiled again, under another name, and nothing else is.
func TestOnlyWhatChangesIsCompiled(t *testing.T) {
	const test = kubernetes + "test/integration/auth"
	all, err := Packages(`{"ImportPath": "k8s.io/kubernetes/test/integration/auth", "TestImports": ["k8s.io/kubernetes/test/util"]}
{"ImportPath": "k8s.io/kubernetes/test/integration/auth [k8s.io/kubernetes/test/integration/auth.test]", "ForTest": "k8s.io/kubernetes/test/integration/auth"}
{"ImportPath": "k8s.io/kubernetes/test/integration/auth.test"}
{"ImportPath": "k8s.io/kubernetes/test/util", "Imports": ["k8s.io/kubernetes/test/framework", "k8s.io/kubernetes/pkg/api"]}
{"ImportPath": "k8s.io/kubernetes/test/framework", "Imports": ["k8s.io/kubernetes/pkg/api"], "EmbedFiles": ["key.pem"]}
{"ImportPath": "k8s.io/kubernetes/pkg/api"}
{"ImportPath": "k8s.io/other", "Imports": ["k8s.io/kubernetes/test/framework"]}`)
	if err != nil || len(all) != 5 {
		t.Fatalf("%d packages: %v", len(all), err)
	}
	changed := Changed(test, all, PatchedPackages("--- a/x\n+++ b/test/framework/server.go\n+++ b/test/unused/server.go\n"))
	want := []string{kubernetes + "test/framework", test, kubernetes + "test/util"}
	if !slices.Equal(changed, want) {
		t.Fatalf("changed are %v", changed)
	}
	kube, dir := t.TempDir(), t.TempDir()
	for file, text := range map[string]string{
		"test/integration/auth/a_test.go": `import "k8s.io/kubernetes/test/util"`, "test/util/u.go": `import ("k8s.io/kubernetes/test/framework"; "k8s.io/kubernetes/pkg/api")`,
		"test/util/u_test.go": "", "test/framework/server.go": "", "test/framework/key.pem": "",
	} {
		path := filepath.Join(kube, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, built, err := Overlay("/repo", kube, dir, test, changed, all)
	if err != nil || built != virtual+"test/integration/auth" {
		t.Fatalf("%q: %v", built, err)
	}
	text, err := os.ReadFile(overlay)
	if err != nil {
		t.Fatal(err)
	}
	for file, there := range map[string]bool{
		"/repo/test/upstream/kubernetes/test/integration/auth/a_test.go": true, "/repo/test/upstream/kubernetes/test/util/u.go": true,
		"/repo/test/upstream/kubernetes/test/util/u_test.go": false, "/repo/test/upstream/kubernetes/test/framework/key.pem": true,
	} {
		if strings.Contains(string(text), `"`+file+`"`) != there {
			t.Errorf("%s in the overlay: %v, want %v\n%s", file, !there, there, text)
		}
	}
	rewritten, err := os.ReadFile(filepath.Join(dir, "test/util/u.go"))
	if err != nil || string(rewritten) != "//line "+filepath.Join(kube, "test/util/u.go")+":1\n"+`import ("`+virtual+`test/framework"; "k8s.io/kubernetes/pkg/api")` {
		t.Errorf("%s %v", rewritten, err)
	}
}

// SV-13: scripts of tests can be run, and the one that must not be cannot.
func TestScriptsCanBeRun(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"plugin.sh", "plugin-not-executable.sh", "plugin.go"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := MakeExecutable(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"plugin.sh": true, "plugin-not-executable.sh": false, "plugin.go": false} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode()&0o100 != 0 != want {
			t.Errorf("%s can be run: %v, want %v: %v", name, !want, want, err)
		}
	}
}
