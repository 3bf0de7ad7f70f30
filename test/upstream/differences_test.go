package upstream

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"proviso.dev/proviso/test/upstream/compare"
)

// SV-13: every difference from stock has a reason, the list can be read, and a reason that is none any more is noticed.
func TestDifferencesHaveReasons(t *testing.T) {
	list, err := compare.ReadDifferences("testdata/differences.txt")
	if err != nil || len(list) == 0 {
		t.Fatalf("%d differences: %v", len(list), err)
	}
	if why := list.Why("certificates", "TestController_AutoApproval/x_despite_missing_username_y"); !strings.Contains(why, "Node,RBAC") {
		t.Errorf("%q", why)
	}
	for _, test := range [][2]string{{"certificates", "TestController_AutoApproval/matches_requirements"}, {"auth", "TestRBAC/case-2"}, {"dryrun", "TestSubjectAccessReview"}} {
		if why := list.Why(test[0], test[1]); why != "" {
			t.Errorf("%v is listed: %s", test, why)
		}
	}
	// A reason is wrong as soon as everything passes that it is for; what was not run, or skipped, says nothing.
	for _, ran := range []struct {
		pkg  string
		on   compare.Results
		want int
	}{
		{"auth", compare.Results{"TestRBAC": "pass", "TestRBAC/case-1": "pass", "TestRBAC/case-2": "fail"}, 1},
		{"auth", compare.Results{"TestRBAC": "fail", "TestRBAC/case-1": "fail", "TestRBAC/case-2": "pass"}, 0},
		{"auth", compare.Results{"TestRBAC": "pass", "TestRBAC/case-1": "skip"}, 0},
		{"auth", compare.Results{"TestOther": "pass"}, 0},
		{"dryrun", compare.Results{"TestRBAC": "pass"}, 0},
	} {
		if stale := list.Stale(ran.pkg, ran.on); len(stale) != ran.want {
			t.Errorf("%v: %v, want %d", ran.on, stale, ran.want)
		}
	}
	for _, bad := range []string{"auth TestX", "auth Test( reason"} {
		path := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := compare.ReadDifferences(path); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

var patched = regexp.MustCompile(`(?m)^\+\+\+ b/(.*)$`)

// SV-13: the patch fits the version of Kubernetes in go.mod.
func TestPatchApplies(t *testing.T) {
	patch, err := filepath.Abs("testdata/kubernetes.patch")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	source, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	files := patched.FindAllStringSubmatch(string(text), -1)
	for _, f := range files {
		original, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(source)), f[1]))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(copied, filepath.Dir(f[1])), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied, f[1]), original, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := compare.Patch(t.Context(), copied, patch); err != nil || len(files) == 0 {
		t.Errorf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		after, err := os.ReadFile(filepath.Join(copied, f[1]))
		if err != nil || !strings.Contains(string(after), "test/upstream/bridge") {
			t.Errorf("%s was not patched: %v", f[1], err)
		}
	}
}
