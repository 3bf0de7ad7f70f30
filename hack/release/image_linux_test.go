package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inside prepares the root of a container and becomes its user: the root is read-only, /data and /tmp can be written,
// and the user is the image's, without any capability, in a user namespace of its own.
const inside = `set -e
mount --bind "$1" "$1"
mount --bind "$1/data" "$1/data"
mount -t tmpfs tmpfs "$1/tmp"
mount -o remount,ro,bind "$1"
root=$1; shift
exec unshare --user --map-user=65532 --map-group=65532 --root="$root" --wd=/data -- "$@"`

// OP-1: the image of a release, unpacked, runs without root on a read-only root and becomes ready.
// `go run ./hack/prove release` runs it; PROVISO_IMAGE names the image.
func TestImageRunsWithoutRoot(t *testing.T) {
	archive := os.Getenv("PROVISO_IMAGE")
	if archive == "" {
		t.Skip("PROVISO_IMAGE is not set: run go run ./hack/prove release")
	}
	if out, err := exec.Command("unshare", "--user", "--map-root-user", "--mount", "true").CombinedOutput(); err != nil {
		t.Skipf("this machine has no user namespaces for us: %v %s", err, out)
	}
	img, ok := loaded(t, archive)["linux/"+runtime.GOARCH]
	if !ok {
		t.Fatalf("%s has no image for this machine", archive)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	unpack(t, img, root)
	port := freePort(t)
	args := []string{"--user", "--map-root-user", "--mount", "sh", "-c", inside, "sh", root}
	args = append(append(append(args, config.Config.Entrypoint...), config.Config.Cmd...), fmt.Sprintf("--secure-port=%d", port))
	var output bytes.Buffer
	cmd := exec.Command("unshare", args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = config.Config.Env, &output, &output
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ready := func() bool {
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", port))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK && string(body) == "ok"
	}
	deadline := time.After(4 * time.Minute)
	for !ready() {
		select {
		case err := <-done:
			t.Fatalf("the image ended: %v\n%s", err, &output)
		case <-deadline:
			_ = cmd.Process.Kill()
			<-done
			t.Fatalf("/readyz does not say ok\n%s", &output)
		case <-time.After(100 * time.Millisecond):
		}
	}
	// unshare, sh and the server are one process, one after the other.
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil || !strings.Contains(string(status), "CapEff:\t0000000000000000") {
		t.Errorf("the server has capabilities: %v\n%s", err, status)
	}
	if uids, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", cmd.Process.Pid)); err != nil || strings.Fields(string(uids))[0] != "65532" {
		t.Errorf("the server is not 65532 in its namespace: %v %s", err, uids)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", cmd.Process.Pid))
	if err != nil || !strings.Contains(string(mounts), " / ro") {
		t.Errorf("the root can be written: %v\n%s", err, mounts)
	}
	if _, err := os.Stat(filepath.Join(root, "data", "etcd")); err == nil {
		t.Log("its data is in /data")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("it ended with %v\n%s", err, &output)
		}
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		t.Errorf("it does not end\n%s", &output)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
