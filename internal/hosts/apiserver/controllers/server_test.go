package controllers

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"proviso.dev/proviso/internal/platform/localetcd"
	"proviso.dev/proviso/internal/platform/pki"
)

// limit bounds what must happen; no test waits for it to pass.
const limit = 4 * time.Minute

// server is stock kube-apiserver on our etcd with our certificates.
type server struct {
	files    *pki.Files
	loopback *rest.Config
	// The clients log in with the administrator's kubeconfig.
	admin *rest.Config
	*kubernetes.Clientset
	dynamic dynamic.Interface
	crds    apiextensions.Interface
}

func startServer(t *testing.T) *server {
	t.Helper()
	dataDir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	files, err := pki.Ensure(dataDir, pki.Config{BindAddress: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	etcd, err := localetcd.Start(ctx, localetcd.Config{Dir: filepath.Join(dataDir, "etcd")})
	if err != nil {
		t.Fatal(err)
	}
	s := options.NewServerRunOptions()
	s.SecureServing.Listener, s.SecureServing.BindPort = listener, port
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	named := s.Flags()
	for _, set := range named.FlagSets {
		flags.AddFlagSet(set)
	}
	err = flags.Parse([]string{
		"--etcd-servers=" + etcd.Endpoints()[0],
		"--tls-cert-file=" + files.ServingCert, "--tls-private-key-file=" + files.ServingKey,
		"--client-ca-file=" + files.CACert,
		"--requestheader-client-ca-file=" + files.FrontProxyCACert, "--requestheader-allowed-names=" + pki.ProxyClientName,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--proxy-client-cert-file=" + files.ProxyClientCert, "--proxy-client-key-file=" + files.ProxyClientKey,
		"--kubelet-client-certificate=" + files.KubeletClientCert, "--kubelet-client-key=" + files.KubeletClientKey,
		"--service-account-signing-key-file=" + files.SAKey, "--service-account-key-file=" + files.SAPub,
		"--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		t.Fatal(err)
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if errs := completed.Validate(); len(errs) != 0 {
		t.Fatal(errs)
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		t.Fatal(err)
	}
	completedConfig, err := config.Complete()
	if err != nil {
		t.Fatal(err)
	}
	chain, err := app.CreateServerChain(completedConfig)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- prepared.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		etcd.Close()
	})
	out := &server{files: files, loopback: chain.GenericAPIServer.LoopbackClientConfig}
	if out.admin, err = clientcmd.BuildConfigFromFlags("", files.AdminKubeconfig); err != nil {
		t.Fatal(err)
	}
	out.admin.QPS = -1
	out.Clientset = kubernetes.NewForConfigOrDie(out.admin)
	out.dynamic = dynamic.NewForConfigOrDie(out.admin)
	out.crds = apiextensions.NewForConfigOrDie(out.admin)
	await(t, "the server to be ready", func(ctx context.Context) (bool, error) {
		select {
		case err := <-stopped:
			stopped <- err
			return false, err
		default:
		}
		_, err := out.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
	return out
}

// await polls until a condition holds. The condition's error ends the test.
func await(t *testing.T, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, limit, true, condition); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// replica is a running set of controllers.
type replica struct {
	*Controllers
	cancel  context.CancelFunc
	stopped chan error
	calls   *openCalls
}

// openCalls counts the calls whose answer is still being read, watches above all.
type openCalls struct{ atomic.Int64 }

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

func (o *openCalls) roundTrip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	o.Add(1)
	done := sync.OnceFunc(func() { o.Add(-1) })
	resp, err := next.RoundTrip(req)
	if err != nil {
		done()
		return nil, err
	}
	resp.Body = closer{resp.Body, done}
	return resp, nil
}

type closer struct {
	io.ReadCloser
	done func()
}

func (c closer) Close() error {
	defer c.done()
	return c.ReadCloser.Close()
}

func (s *server) run(t *testing.T, cfg Config) *replica {
	t.Helper()
	cfg.RestConfig, cfg.RootCA, cfg.ServiceAccountKeyFile = rest.CopyConfig(s.loopback), read(t, s.files.CACert), s.files.SAKey
	calls := &openCalls{}
	cfg.RestConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) { return calls.roundTrip(next, req) })
	})
	cfg.lease = timing{duration: 12 * time.Second, deadline: 8 * time.Second, retry: 4 * time.Second} // resigning has the time of one retry
	cfg.discovery = time.Second
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{Controllers: c, cancel: cancel, stopped: make(chan error, 1), calls: calls}
	go func() { r.stopped <- c.Run(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

func (r *replica) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.stopped:
		r.stopped <- err
		if err != nil {
			t.Error(err)
		}
		if r.Running() {
			t.Error("controllers still run after the end")
		}
		if open := r.calls.Load(); open != 0 {
			t.Errorf("%d calls are open after the end", open)
		}
	case <-time.After(limit):
		t.Fatal("controllers do not stop")
	}
}
