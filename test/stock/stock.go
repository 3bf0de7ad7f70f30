// Package stock sets up a stock kube-apiserver, an etcd and a sidecar, all from the modules of this repository, for
// tests that need the real ones. It says which processes to start; the test starts them.
package stock

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"proviso.dev/proviso/internal/platform/pki"
)

// Config is what a pair is made of.
type Config struct {
	// Proviso is the built program, and Dir an empty directory with a short path: that of a unix socket is limited.
	Proviso, Dir string
	// Port is the API server's; 0 means any.
	Port int
	// Init and Server are further flags of `sidecar init` and of kube-apiserver.
	Init, Server []string
	// SharedEtcd lets the sidecar keep policy in the API server's etcd.
	SharedEtcd bool
	// Of makes it one more API server of a cluster, with a sidecar of its own: with the same authorities and etcd.
	Of *Pair
}

// Pair is a stock kube-apiserver and a sidecar that `sidecar init` alone has set up.
type Pair struct {
	// Side is the sidecar's directory, and Dir that of everything.
	Dir, Side string
	// Kubeconfig is that of a member of system:masters.
	Kubeconfig string
	Port       int
	// Listen is where the sidecar listens.
	Listen string
	Files  *pki.Files
	// Etcd, Car and Server are the commands to start, in this order.
	Etcd, Car, Server []string
	// Store is where the etcd answers.
	Store string
}

// Prepare makes certificates, runs `sidecar init` and says what to start.
func Prepare(cfg Config) (*Pair, error) {
	apiserver, err := Server()
	if err != nil {
		return nil, err
	}
	etcd, err := Etcd()
	if err != nil {
		return nil, err
	}
	var ports [4]int
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	if cfg.Port != 0 {
		ports[0] = cfg.Port
	}
	p := &Pair{Dir: cfg.Dir, Side: filepath.Join(cfg.Dir, "s"), Port: ports[0], Listen: fmt.Sprintf("127.0.0.1:%d", ports[1])}
	if err := p.identify(cfg.Of); err != nil {
		return nil, err
	}
	init := append([]string{"sidecar", "init", "--out", p.Side, "--pki-dir", filepath.Dir(p.Files.CACert), "--server", p.URL(), "--listen", p.Listen}, cfg.Init...)
	p.Store = fmt.Sprintf("http://127.0.0.1:%d", ports[2])
	if cfg.Of != nil {
		p.Store = cfg.Of.Store
	}
	if cfg.SharedEtcd {
		init = append(init, "--etcd-servers", p.Store)
	}
	if out, err := exec.Command(cfg.Proviso, init...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("sidecar init: %w\n%s", err, out)
	}
	flags, err := os.ReadFile(filepath.Join(p.Side, "kube-apiserver.flags"))
	if err != nil {
		return nil, err
	}
	peers := fmt.Sprintf("http://127.0.0.1:%d", ports[3])
	p.Etcd = []string{etcd, "--data-dir", filepath.Join(cfg.Dir, "e"), "--log-level", "error", "--listen-client-urls", p.Store, "--advertise-client-urls", p.Store,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers}
	if cfg.Of != nil {
		p.Etcd = nil
	}
	p.Car = []string{cfg.Proviso, "sidecar", "--dir", p.Side}
	p.Server = append([]string{apiserver, "--etcd-servers", p.Store, "--cert-dir", filepath.Join(cfg.Dir, "unused")}, ServerFlags(p.Files, p.Port)...)
	p.Server = append(append(p.Server, strings.Fields(string(flags))...), cfg.Server...)
	return p, nil
}

// identify makes the authorities of a cluster, or takes those of another API server in it.
func (p *Pair) identify(other *Pair) (err error) {
	if other == nil {
		if p.Files, err = pki.Ensure(p.Dir, pki.Config{BindAddress: net.IPv4(127, 0, 0, 1), Port: p.Port}); err == nil {
			p.Kubeconfig = p.Files.AdminKubeconfig
		}
		return err
	}
	p.Files, p.Kubeconfig = other.Files, filepath.Join(p.Dir, "admin.kubeconfig")
	data, err := pki.IssueClient(p.Files, pki.ClientRequest{User: "kubernetes-admin", Groups: []string{"system:masters"}, TTL: 24 * time.Hour, Server: p.URL()})
	if err != nil {
		return err
	}
	return os.WriteFile(p.Kubeconfig, data, 0o600)
}

// Alone is the API server without the sidecar: its own authorizers, no webhooks, and the same audit log.
func (p *Pair) Alone() []string {
	var flags []string
	for _, f := range p.Server {
		switch name, _, _ := strings.Cut(f, "="); name {
		case "--authorization-config":
			flags = append(flags, "--authorization-mode=Node,RBAC")
		case "--admission-control-config-file", "--feature-gates": // older ones do not know the gate
		default:
			flags = append(flags, f)
		}
	}
	return flags
}

// URL is where the API server answers.
func (p *Pair) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", p.Port) }

// ServerFlags are those that every installer gives kube-apiserver, but for its etcd and authorizers.
func ServerFlags(f *pki.Files, port int) []string {
	return []string{"--secure-port", strconv.Itoa(port), "--bind-address", "127.0.0.1", "--allow-privileged=true",
		"--tls-cert-file", f.ServingCert, "--tls-private-key-file", f.ServingKey, "--client-ca-file", f.CACert,
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", f.SAPub, "--service-account-signing-key-file", f.SAKey,
		"--service-cluster-ip-range", "10.0.0.0/24", "--kubelet-client-certificate", f.KubeletClientCert, "--kubelet-client-key", f.KubeletClientKey,
		"--requestheader-client-ca-file", f.FrontProxyCACert, "--requestheader-allowed-names", pki.ProxyClientName, "--requestheader-username-headers", "X-Remote-User",
		"--requestheader-group-headers", "X-Remote-Group", "--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", f.ProxyClientCert, "--proxy-client-key-file", f.ProxyClientKey}
}

// OlderVersion has an older stock kube-apiserver built in the place of the one of go.mod: 1.36 or 1.35.
const OlderVersion = "PROVISO_STOCK"

// Server builds the stock kube-apiserver, with the version that it would be released as. What is built is kept in the
// user's cache, where the next run finds it if nothing has changed.
var Server = sync.OnceValues(func() (string, error) {
	name, module := "kube-apiserver", ""
	if older := os.Getenv(OlderVersion); older != "" {
		root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "proviso.dev/proviso").Output()
		if err != nil {
			return "", fmt.Errorf("go list: %w", err)
		}
		name, module = "kube-apiserver-"+older, filepath.Join(strings.TrimSpace(string(root)), "test/stock/older/v"+older)
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	list.Dir = module
	text, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list in %q: %w", module, err)
	}
	version := strings.TrimSpace(string(text))
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 3 {
		return "", fmt.Errorf("version %q of Kubernetes cannot be read", version)
	}
	flags := fmt.Sprintf("-X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", "k8s.io/component-base/version", version, parts[0], parts[1])
	return build(module, name, flags, "k8s.io/kubernetes/cmd/kube-apiserver")
})

// Etcd builds the real etcd server.
var Etcd = sync.OnceValues(func() (string, error) { return build("", "etcd", "", "proviso.dev/proviso/test/stock/etcd") })

// build builds a program in the directory of a module, by default this one.
func build(module, name, flags, of string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "proviso-stock", name)
	cmd := exec.Command("go", "build", "-ldflags", flags, "-o", path, of)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", of, err, out)
	}
	return path, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}
