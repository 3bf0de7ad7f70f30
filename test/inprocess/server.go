// Package inprocess runs a server in the process of a test. It knows nothing of what it runs: byflags runs `proviso
// serve`, test/server one with parts of its own.
package inprocess

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/platform/pki"
)

// patience bounds every wait. It is generous, because a busy machine is slow and nothing here is about speed.
const patience = 4 * time.Minute

// Main is the TestMain of packages whose servers log: their log stays out of the output of the tests. What is to be
// done after all of them may fail, too.
func Main(m *testing.M, after ...func() error) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	code := m.Run()
	for _, f := range after {
		if err := f(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Server is a running server.
type Server struct {
	T testing.TB
	// Dir is its data directory.
	Dir string
	// Admin is in system:masters.
	Admin *rest.Config
	// Output is what it prints.
	Output *Output
	// Cancel tells it to end.
	Cancel  context.CancelFunc
	stopped chan error
}

// Run serves until the context ends.
type Run func(ctx context.Context, out io.Writer) error

// Start runs a server until the test ends, and waits for the administrator's kubeconfig. It has a data directory and a
// listener of its own.
func Start(t testing.TB, configure func(dir string, listener net.Listener) (Run, error)) *Server {
	t.Helper()
	// The path of a unix socket is limited to 108 bytes, which t.TempDir may exceed.
	dir, err := os.MkdirTemp("", "proviso")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	run, err := configure(dir, listener)
	if err != nil {
		_ = listener.Close()
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{T: t, Dir: dir, Output: &Output{}, Cancel: cancel, stopped: make(chan error, 1)}
	go func() { s.stopped <- run(ctx, s.Output) }()
	t.Cleanup(s.Stop)
	s.Await("the admin kubeconfig", func() (bool, error) {
		if s.Admin, err = clientcmd.BuildConfigFromFlags("", dir+"/admin.kubeconfig"); err != nil {
			return false, nil //nolint:nilerr // it is not there yet
		}
		s.Admin.QPS = -1
		return true, nil
	})
	return s
}

// AwaitReady waits until the server says that it is ready.
func (s *Server) AwaitReady() {
	s.T.Helper()
	client, err := rest.HTTPClientFor(s.Admin)
	if err != nil {
		s.T.Fatal(err)
	}
	s.Await("readiness", func() (bool, error) {
		resp, err := client.Get(s.Admin.Host + "/readyz")
		if err != nil {
			return false, nil // it does not listen yet
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode == http.StatusOK, nil
	})
}

// Await polls for a condition and fails the test if the server stops first.
func (s *Server) Await(what string, condition func() (bool, error)) {
	s.T.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		select {
		case err := <-s.stopped:
			s.stopped <- err
			return false, fmt.Errorf("the server stopped: %v", err)
		default:
			return condition()
		}
	})
	if err != nil {
		s.T.Fatalf("waiting for %s: %v\n%s", what, err, s.Output)
	}
}

// Stop ends the server and waits for it.
func (s *Server) Stop() {
	s.Cancel()
	select {
	case err := <-s.stopped:
		s.stopped <- err
		if err != nil {
			s.T.Errorf("the server ended with: %v\n%s", err, s.Output)
		}
	case <-time.After(patience):
		s.T.Error("the server did not stop")
	}
}

// CertificateLife is how long the certificates of users last: longer than any search.
const CertificateLife = 12 * time.Hour

// As is a client configuration for a user with a certificate of their own.
func (s *Server) As(user string, groups ...string) *rest.Config {
	s.T.Helper()
	files, err := pki.Open(s.Dir)
	if err != nil {
		s.T.Fatal(err)
	}
	kubeconfig, err := pki.IssueClient(files, pki.ClientRequest{User: user, Groups: groups, TTL: CertificateLife})
	if err != nil {
		s.T.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		s.T.Fatal(err)
	}
	config.QPS = -1
	return config
}

// Output collects what a server prints.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(o.b.String())
}
