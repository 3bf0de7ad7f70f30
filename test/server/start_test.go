package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/internal/hosts/apiserver/controllers"
	"proviso.dev/proviso/test/inprocess"
	"proviso.dev/proviso/test/stock/beside"
)

func TestMain(m *testing.M) { inprocess.Main(m, stopShared) }

// instance is a server running in this process.
type instance struct {
	*inprocess.Server
	t     testing.TB
	dir   string
	admin *rest.Config
}

var instances atomic.Int64

// start runs a server in this process until the test ends and waits until it is ready. Feature gates, klog and metrics
// are shared by all servers of a process; everything else is its own.
func start(t testing.TB, configure ...func(*apiserver.Options)) *instance {
	t.Helper()
	s := launch(t, configure...)
	s.AwaitReady()
	return s
}

// startHost is start, or a stock server with a sidecar if somebody wants that: `go run ./hack/prove examples-sidecar`.
func startHost(t *testing.T) *instance {
	t.Helper()
	if !isBeside() {
		return plain.get(t)
	}
	s := beside.Start(t)
	return &instance{Server: s, t: t, dir: s.Dir, admin: s.Admin}
}

func isBeside() bool { return beside.Program() != "" }

// notBeside skips what a stock server cannot have (SC-9).
func notBeside(t *testing.T, why string) {
	t.Helper()
	if isBeside() {
		t.Skip("not beside a stock server: " + why)
	}
}

// launch is start without waiting for readiness.
func launch(t testing.TB, configure ...func(*apiserver.Options)) *instance {
	t.Helper()
	if err := apiserver.RegisterFeatures(); err != nil {
		t.Fatal(err)
	}
	s := inprocess.Start(t, func(dir string, listener net.Listener) (_ inprocess.Run, err error) {
		o := apiserver.NewOptions()
		o.DataDir = dir
		o.Controllers = []string{"-" + controllers.Known()[0]} // none
		o.Give("controllers", "data-dir")
		if o.Kube.InformerName, err = cache.NewInformerName(fmt.Sprintf("test-%d", instances.Add(1))); err != nil {
			return nil, err
		}
		o.Kube.SecureServing.Listener = listener
		o.Kube.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port
		for _, c := range configure {
			c(o)
		}
		return func(ctx context.Context, out io.Writer) error { return apiserver.Run(ctx, o, out) }, nil
	})
	return &instance{Server: s, t: t, dir: s.Dir, admin: s.Admin}
}

// await polls for a condition and fails the test if the server stops first.
func (s *instance) await(what string, condition func() (bool, error)) {
	s.t.Helper()
	s.Await(what, condition)
}

// as returns a client configuration for a user with a certificate of his own.
func (s *instance) as(user string, groups ...string) *rest.Config {
	s.t.Helper()
	return s.As(user, groups...)
}
