package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// SV-1: from nothing to a working server without a flag that matters, and again on the same data.
func TestStartFromNothingAndAgain(t *testing.T) {
	dir := filepath.Join(tempDir(t), "data")
	s := serve(t, dir)
	out := s.output.String()
	for _, want := range []string{"certificates", "etcd", "API server", "controllers", "policy", "export KUBECONFIG=" + s.kubeconfig, "proviso kubectl get namespaces"} {
		if !strings.Contains(out, want) {
			t.Errorf("the start does not mention %q:\n%s", want, out)
		}
	}
	wantMode(t, dir, 0o700)
	wantMode(t, s.kubeconfig, 0o600)
	err := filepath.WalkDir(filepath.Join(dir, "pki"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".key") {
			wantMode(t, path, 0o600)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.kubectl("version", "-o", "json"); strings.Count(got, `"gitVersion": "v1.37.1"`) != 2 {
		t.Errorf("client and server must both be v1.37.1:\n%s", got) // SV-3
	}
	s.kubectl("create", "configmap", "kept", "--from-literal=a=b")
	ca := read(t, filepath.Join(dir, "pki", "ca.crt"))

	begin := time.Now()
	s.stop()
	if took := time.Since(begin); took > forever {
		t.Errorf("Ctrl-C took %s", took)
	}
	again := serve(t, dir, "--secure-port", strconv.Itoa(s.port)) // the kubeconfig need not change
	if got := again.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}"); got != "b" {
		t.Errorf("the second start lost the data: %q", got)
	}
	if read(t, filepath.Join(dir, "pki", "ca.crt")) != ca {
		t.Error("the second start made another CA")
	}
	if !strings.Contains(again.output.String(), "reused") {
		t.Errorf("the second start does not say that it reuses the certificates:\n%s", again.output)
	}

	// A second server on the same data is refused, and the first one lives on.
	second := launch(t, dir)
	if code := second.wait(); code == 0 || !strings.Contains(second.output.String(), "is in use by process") {
		t.Errorf("a data dir in use: exit code %d\n%s", code, second.output)
	}
	again.kubectl("get", "namespaces")

	// A user with a certificate of his own, who expires (SV-3).
	edgar, err := again.issue("edgar", "team-a")
	if err != nil {
		t.Fatal(err)
	}
	if got := again.kubectl("--kubeconfig", edgar, "auth", "whoami"); !strings.Contains(got, "edgar") || !strings.Contains(got, "team-a") {
		t.Errorf("whoami: %s", got)
	}
}

// SV-1: the second Ctrl-C ends the server at once, even while a watch keeps the first one waiting.
func TestSecondInterruptEndsAtOnce(t *testing.T) {
	s := serve(t, tempDir(t)+"/d")
	s.signal(syscall.SIGINT)
	s.signal(syscall.SIGINT)
	begin := time.Now()
	s.wait()
	if took := time.Since(begin); took > forever {
		t.Errorf("the second interrupt took %s", took)
	}
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %04o, want %04o", path, got, want)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
