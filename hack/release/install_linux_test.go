package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// krewVersion is that of krew, which installs the plugin.
const krewVersion = "v0.5.0"

// ours marks the blocks of the page that this test runs.
var ours = regexp.MustCompile("(?ms)^<!-- not pasted: a test of hack/release [^>]*-->\n```sh\n(.*?)^```")

// prelude stands for what the page takes from elsewhere: downloads come from the directory of the release, and the
// version and the platform are those that were built.
const prelude = `set -eu
curl() { cp "$DIST/${2##*/}" .; }
`

// OP-1: every command of the page on installing that a test can run works with the files of a release, in the order of
// the page. `go run ./hack/prove release` runs it; PROVISO_DIST names the directory.
func TestInstallPage(t *testing.T) {
	dist := os.Getenv("PROVISO_DIST")
	if dist == "" {
		t.Skip("PROVISO_DIST is not set: run go run ./hack/prove release")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob(filepath.Join(dist, "proviso_*_linux_"+runtime.GOARCH+".tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("%v %v", archives, err)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archives[0]), "proviso_"), "_linux_"+runtime.GOARCH+".tar.gz")
	home := t.TempDir()
	tools := filepath.Join(home, "tools")
	krew := withKubectl(t, archives[0], tools)
	script := prelude
	for _, block := range ours.FindAllStringSubmatch(string(page), -1) {
		if !krew && strings.Contains(block[1], "krew install") {
			continue
		}
		for _, line := range strings.Split(block[1], "\n") {
			if strings.Contains(line, "krew uninstall") {
				continue // krew wants the index of its plugins for that, from the network
			}
			script += strings.Replace(line, "VERSION=v0.1.0 PLATFORM=linux_amd64", "VERSION="+version+" PLATFORM=linux_"+runtime.GOARCH, 1) + "\n"
		}
	}
	installed := strings.Split(script, "rm -f ~")
	if len(installed) != 2 || strings.Count(script, "curl -fLO") < 5 || !strings.Contains(script, "VERSION="+version) {
		t.Fatalf("the page has other blocks than this test knows:\n%s", script)
	}
	paste := func(script string) string {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "DIST=" + dist, "PATH=" + tools + ":" + filepath.Join(home, ".krew", "bin") + ":" + os.Getenv("PATH"), "KREW_ROOT=" + filepath.Join(home, ".krew"), "KREW_NO_UPGRADE_CHECK=1"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, script)
		}
		return string(out)
	}
	out := paste(installed[0])
	t.Logf("%s", out)
	for _, want := range []string{"Signature Verified Successfully", filepath.Base(archives[0]) + ": OK", version} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not said:\n%s", want, out)
		}
	}
	serves(t, filepath.Join(home, ".local", "bin", "proviso"), home)
	paste(prelude + "rm -f ~" + installed[1])
	if left, err := os.ReadDir(filepath.Join(home, ".local", "bin")); err != nil || len(left) > 0 {
		t.Errorf("what is left: %v %v", left, err)
	}
}

// withKubectl makes a directory with kubectl, which is the released program under that name, and krew, if it can be
// had.
func withKubectl(t *testing.T, archive, tools string) (krew bool) {
	t.Helper()
	if err := os.MkdirAll(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "xzf", archive, "-C", tools, "proviso").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if err := os.Rename(filepath.Join(tools, "proviso"), filepath.Join(tools, "kubectl")); err != nil {
		t.Fatal(err)
	}
	// In a module of its own: `go install` wants to know all versions, which some proxies do not say.
	module := t.TempDir()
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte("module krew.test\n\ngo 1.26\n\nrequire sigs.k8s.io/krew "+krewVersion+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", filepath.Join(tools, "kubectl-krew"), "sigs.k8s.io/krew/cmd/krew")
	build.Dir, build.Env = module, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Logf("skipped: krew cannot be had: %v %s", err, out)
		return false
	}
	return true
}

// serves starts the installed server until it says to a kubectl of the release that it is ready.
func serves(t *testing.T, program, dir string) {
	t.Helper()
	data := filepath.Join(dir, "data")
	var output bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, program, "serve", "--data-dir", data, fmt.Sprintf("--secure-port=%d", freePort(t)))
	server.Stdout, server.Stderr = &output, &output
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Wait() }()
	for {
		ready := exec.CommandContext(ctx, program, "kubectl", "--kubeconfig", filepath.Join(data, "admin.kubeconfig"), "get", "--raw", "/readyz")
		out, err := ready.CombinedOutput()
		if err == nil && string(out) == "ok" {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("the server ended: %v\n%s", err, &output)
		case <-ctx.Done():
			t.Fatalf("it does not serve: %s", out)
		case <-time.After(200 * time.Millisecond):
		}
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v\n%s", err, &output)
	}
}
