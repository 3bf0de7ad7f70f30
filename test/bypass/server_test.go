package bypass

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/pki"
	"proviso.dev/proviso/internal/server"
)

// TestMain keeps the server's log out of the test's output.
func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// host is a server running in this process, configured by its flags.
type host struct {
	t       testing.TB
	dir     string
	admin   *rest.Config
	stopped chan error
}

// serve runs a server until the test ends, with every version of every group and every encoding switched on.
func serve(t testing.TB) *host {
	t.Helper()
	if err := server.RegisterFeatures(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "bypass") // the path of a unix socket is short, t.TempDir may be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	o := server.NewOptions()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	for _, section := range o.Flags().FlagSets {
		flags.AddFlagSet(section)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := flags.Parse([]string{
		"--data-dir=" + dir,
		"--controllers=serviceaccount",
		"--runtime-config=api/all=true",
		"--feature-gates=CBORServingAndStorage=true",
		"--audit-dynamic-allow-insecure-sinks",
		fmt.Sprintf("--secure-port=%d", listener.Addr().(*net.TCPAddr).Port),
	}); err != nil {
		t.Fatal(err)
	}
	o.Kube.SecureServing.Listener = listener
	o.Parsed(flags)
	if err := o.Kube.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	h := &host{t: t, dir: dir, stopped: make(chan error, 1)}
	output := &lockedBuffer{}
	go func() { h.stopped <- server.Run(ctx, o, output) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-h.stopped:
			if err != nil {
				t.Errorf("the server ended with: %v\n%s", err, output)
			}
		case <-time.After(4 * time.Minute):
			t.Error("the server did not stop")
		}
	})
	h.await("the admin kubeconfig", func() bool {
		h.admin, err = clientcmd.BuildConfigFromFlags("", dir+"/admin.kubeconfig")
		return err == nil
	})
	client, err := rest.HTTPClientFor(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	h.await("readiness", func() bool {
		resp, err := client.Get(h.admin.Host + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return h
}

// await polls for a condition and fails the test if the server stops first.
func (h *host) await(what string, condition func() bool) {
	h.t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, 4*time.Minute, true, func(context.Context) (bool, error) {
		select {
		case err := <-h.stopped:
			h.stopped <- err
			return false, fmt.Errorf("the server stopped: %v", err)
		default:
			return condition(), nil
		}
	})
	if err != nil {
		h.t.Fatalf("waiting for %s: %v", what, err)
	}
}

// as is a client configuration for a user with a certificate of his own.
func (h *host) as(user string) *rest.Config {
	h.t.Helper()
	files, err := pki.Open(h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	kubeconfig, err := pki.IssueClient(files, pki.ClientRequest{User: user, TTL: time.Hour})
	if err != nil {
		h.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		h.t.Fatal(err)
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
	return b.b.String()
}
