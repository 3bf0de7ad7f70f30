package server

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
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/controllers"
	"proviso.dev/proviso/internal/pki"
)

// TestMain keeps the servers' log out of the tests' output.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// instance is a server running in this process.
type instance struct {
	t       testing.TB
	dir     string
	admin   *rest.Config
	output  *lockedBuffer
	stop    context.CancelFunc
	stopped chan error
}

var instances atomic.Int64

// start runs a server in this process until the test ends and waits until it is ready. Feature gates, klog and metrics
// are shared by all servers of a process; everything else is its own.
func start(t testing.TB, configure ...func(*Options)) *instance {
	t.Helper()
	s := launch(t, configure...)
	s.awaitReady()
	return s
}

// launch is start without waiting for readiness.
func launch(t testing.TB, configure ...func(*Options)) *instance {
	t.Helper()
	if err := RegisterFeatures(); err != nil {
		t.Fatal(err)
	}
	// The path of a unix socket is limited to 108 bytes, which t.TempDir may exceed.
	dir, err := os.MkdirTemp("", "proviso")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	o := NewOptions()
	o.DataDir = dir
	o.Controllers = []string{"-" + controllers.Known()[0]} // none
	o.changed = func(name string) bool { return name == "controllers" || name == "data-dir" }
	o.Kube.InformerName, err = cache.NewInformerName(fmt.Sprintf("test-%d", instances.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Kube.SecureServing.Listener = listener
	o.Kube.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port
	for _, c := range configure {
		c(o)
	}

	ctx, cancel := context.WithCancel(context.Background())
	s := &instance{t: t, dir: dir, output: &lockedBuffer{}, stop: cancel, stopped: make(chan error, 1)}
	go func() { s.stopped <- Run(ctx, o, s.output) }()
	t.Cleanup(s.shutdown)
	s.await("the admin kubeconfig", func() (bool, error) {
		s.admin, err = clientcmd.BuildConfigFromFlags("", dir+"/admin.kubeconfig")
		if err != nil {
			return false, nil //nolint:nilerr // it is not there yet
		}
		s.admin.QPS = -1
		return true, nil
	})
	return s
}

func (s *instance) awaitReady() {
	s.t.Helper()
	client, err := rest.HTTPClientFor(s.admin)
	if err != nil {
		s.t.Fatal(err)
	}
	s.await("readiness", func() (bool, error) {
		resp, err := client.Get(s.admin.Host + "/readyz")
		if err != nil {
			return false, nil
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK, nil
	})
}

// await polls for a condition and fails the test if the server stops first.
func (s *instance) await(what string, condition func() (bool, error)) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		select {
		case err := <-s.stopped:
			s.stopped <- err
			return false, fmt.Errorf("the server stopped: %v", err)
		default:
			return condition()
		}
	})
	if err != nil {
		s.t.Fatalf("waiting for %s: %v\n%s", what, err, s.output)
	}
}

// shutdown stops the server and waits for it.
func (s *instance) shutdown() {
	s.stop()
	select {
	case err := <-s.stopped:
		s.stopped <- err
		if err != nil {
			s.t.Errorf("the server ended with: %v", err)
		}
	case <-time.After(time.Minute):
		s.t.Error("the server did not stop")
	}
}

// as returns a client configuration for a user with a certificate of his own.
func (s *instance) as(user string, groups ...string) *rest.Config {
	s.t.Helper()
	files, err := pki.Open(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	kubeconfig, err := pki.IssueClient(files, pki.ClientRequest{User: user, Groups: groups, TTL: time.Hour})
	if err != nil {
		s.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// lockedBuffer collects what the server prints.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(b.b.String())
}
