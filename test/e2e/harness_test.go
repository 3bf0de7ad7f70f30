package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait. It is generous, because a busy machine is slow and nothing here is about speed.
const patience = 2 * time.Minute

// binary is the proviso under test.
func binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv("PROVISO_BIN")
	if path == "" {
		t.Skip("PROVISO_BIN is not set: run `make e2e`")
	}
	return path
}

// tempDir is short, because the path of a unix socket is limited to 108 bytes.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// ports hands out each port once, so that tests that run side by side never get the same one. It stays below those
// that the system gives to clients.
var ports atomic.Int32

func freePort(t testing.TB) int {
	t.Helper()
	const first, count = 12000, 20000
	for range count {
		port := first + (os.Getpid()*97+int(ports.Add(1)))%count
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		_ = l.Close()
		return port
	}
	t.Fatal("no port is free")
	return 0
}

// process is a running program whose output is kept.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	output *output
	done   chan struct{}
	err    error
}

func spawn(t testing.TB, path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(path, args...), output: &output{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.Dir = tempDir(t)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s: %v", s, err)
	}
}

// wait returns the exit code.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("the process did not end\n%s", p.output)
	}
	var exit *exec.ExitError
	if errors.As(p.err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// await polls until the condition holds or the process ends.
func (p *process) await(what string, condition func() bool) {
	p.t.Helper()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-p.done:
			p.t.Fatalf("waiting for %s: the process ended with %v\n%s", what, p.err, p.output)
		case <-deadline:
			p.t.Fatalf("waiting for %s: too long\n%s", what, p.output)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// server is a running `proviso serve`.
type server struct {
	*process
	dir        string
	port       int
	kubeconfig string
}

// serve starts a server on a data directory and waits until it says that it is ready.
func serve(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	s := launch(t, dir, args...)
	s.await("readiness", func() bool { return strings.Contains(s.output.String(), "Ready in") })
	return s
}

func launch(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	return launchOf(t, binary(t), dir, args...)
}

// launchOf starts the server of another version.
func launchOf(t testing.TB, program, dir string, args ...string) *server {
	t.Helper()
	s := &server{dir: dir, port: freePort(t), kubeconfig: filepath.Join(dir, "admin.kubeconfig")}
	all := append([]string{"serve", "--data-dir", dir, "--secure-port", fmt.Sprint(s.port)}, args...)
	s.process = spawn(t, program, all...)
	return s
}

// stop ends the server as Ctrl-C does and waits for it.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGINT)
	if code := s.wait(); code != 0 {
		s.t.Fatalf("the server ended with exit code %d\n%s", code, s.output)
	}
}

// kubectl runs the bundled kubectl and fails the test if it fails.
func (s *server) kubectl(args ...string) string {
	s.t.Helper()
	out, err := s.try("", args...)
	if err != nil {
		s.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// established waits until a custom resource is served. kubectl wait fails at once while the status has no conditions.
func (s *server) established(crd string) {
	s.t.Helper()
	s.await(crd+" to be established", func() bool {
		_, err := s.try("", "wait", "--for=condition=Established", "crd/"+crd, "--timeout=1s")
		return err == nil
	})
}

// apply sends a manifest through kubectl.
func (s *server) apply(manifest string, args ...string) string {
	s.t.Helper()
	out, err := s.try(manifest, append([]string{"apply", "-f", "-"}, args...)...)
	if err != nil {
		s.t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	return out
}

// try runs the bundled kubectl.
func (s *server) try(stdin string, args ...string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(s.t), append([]string{"kubectl", "--kubeconfig", s.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// output is what a process has printed so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
