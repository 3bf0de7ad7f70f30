package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/internal/platform/localetcd"
	"proviso.dev/proviso/test/etcdtest"
	"proviso.dev/proviso/test/inprocess"
)

// SV-14: of servers on one etcd, one with another PKI does not start, one with another master namespace is not ready
// and serves nobody, --agree turns that round, and one that stops gives its lease back.
func TestReplicas(t *testing.T) {
	etcd := etcdtest.Start(t)
	// join makes a server a replica, with the PKI of another one if there is one.
	join := func(beside *instance, configure ...func(*apiserver.Options)) func(*apiserver.Options) {
		return func(o *apiserver.Options) {
			useEtcd(o, etcd)
			o.Give("controllers", "data-dir", "etcd-servers")
			if beside != nil {
				copyPKI(t, beside.dir, o.DataDir)
			}
			for _, c := range configure {
				c(o)
			}
		}
	}
	controllers := func(o *apiserver.Options) { o.Controllers = []string{"*"} }
	first := start(t, join(nil, controllers))
	if out := first.Output.String(); !strings.Contains(out, "namespace-controller") {
		t.Errorf("the only replica does not run the controllers:\n%s", out)
	}

	t.Run("another PKI", func(t *testing.T) {
		other, err := os.MkdirTemp("", "pv")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(other) })
		o := apiserver.NewOptions()
		o.DataDir = other
		join(nil)(o)
		if o.Kube.InformerName, err = cache.NewInformerName("test-other-pki"); err != nil {
			t.Fatal(err)
		}
		if o.Kube.SecureServing.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		o.Kube.SecureServing.BindPort = o.Kube.SecureServing.Listener.Addr().(*net.TCPAddr).Port
		out := &inprocess.Output{}
		if err := apiserver.Run(context.Background(), o, out); err == nil || !strings.Contains(err.Error(), "shares no client CA") || !strings.Contains(err.Error(), "Copy the pki directory") {
			t.Errorf("it ended with %v\n%s", err, out)
		}
	})

	t.Run("another master namespace", func(t *testing.T) {
		ops := func(o *apiserver.Options) { o.PolicyMasterNamespace = "ops" }
		differs := launch(t, join(first, ops))
		differs.await("the reason", func() (bool, error) {
			return strings.Contains(differs.Output.String(), `NOT READY: this replica differs`) && strings.Contains(differs.Output.String(), "API server"), nil
		})
		user := first.as("edgar")
		if code, body := differs.get(user, "/api/v1/namespaces/default/configmaps"); code != http.StatusForbidden || !strings.Contains(body, `--policy-master-namespace is \"ops\" here and \"master\" in the record`) {
			t.Errorf("it serves: %d %s", code, body)
		}
		differs.await("everything but readiness", func() (bool, error) {
			_, body := differs.get(user, "/readyz?verbose")
			return strings.Count(body, "[-]") == 1 && strings.Contains(body, "[-]replicas failed"), nil
		})
		if code, body := differs.get(user, "/livez"); code != http.StatusOK {
			t.Errorf("it is not alive: %d %s", code, body)
		}
		if code, body := differs.get(differs.admin, "/api/v1/namespaces/ops"); code != http.StatusNotFound {
			t.Errorf("it has written its defaults: %d %s", code, body)
		}
		if code, _ := first.get(first.admin, "/readyz"); code != http.StatusOK {
			t.Error("the first one is not ready")
		}
		differs.Stop()

		agrees := start(t, join(first, ops, func(o *apiserver.Options) { o.Agree = true }))
		if out := agrees.Output.String(); !strings.Contains(out, "the record was changed") {
			t.Errorf("it does not say what it has changed:\n%s", out)
		}
		first.await("the first one to be told", func() (bool, error) {
			code, _ := first.get(first.admin, "/readyz")
			return code != http.StatusOK, nil
		})
		if code, body := first.get(user, "/apis"); code != http.StatusForbidden || !strings.Contains(body, "--agree") {
			t.Errorf("the first one serves: %d %s", code, body)
		}
		agrees.Stop()
		back := start(t, join(first, func(o *apiserver.Options) { o.Agree = true }))
		first.AwaitReady()

		// A clean stop gives the lease back, and the next one need not wait for it.
		first.Stop()
		client := kubernetes.NewForConfigOrDie(back.admin)
		lease, err := client.CoordinationV1().Leases("kube-system").Get(context.Background(), "proviso-controllers", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if h := lease.Spec.HolderIdentity; h != nil && *h != "" {
			t.Errorf("a server that has stopped holds the lease: %s", *h)
		}
		next := start(t, join(back, controllers))
		if out := next.Output.String(); !strings.Contains(out, "namespace-controller") || !strings.Contains(out, "1 beside this one") {
			t.Errorf("the next one does not run the controllers:\n%s", out)
		}
	})
}

// useEtcd lets a server store in an etcd that others share.
func useEtcd(o *apiserver.Options, e *localetcd.Etcd) {
	transport := &o.Kube.Etcd.StorageConfig.Transport
	transport.ServerList = e.Endpoints()
	tls := e.ClientTLS() // empty on a unix socket
	transport.TrustedCAFile, transport.CertFile, transport.KeyFile = tls.CACert, tls.ClientCert, tls.ClientKey
}

func copyPKI(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(from, "pki"), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// get asks the server a question as somebody whose credentials may point to another replica.
func (s *instance) get(as *rest.Config, path string) (int, string) {
	s.t.Helper()
	config := rest.CopyConfig(as)
	config.Host = s.admin.Host
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := client.Get(config.Host + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
