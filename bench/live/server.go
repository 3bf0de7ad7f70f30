package live

import (
	"context"
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"proviso.dev/proviso/internal/platform/pki"
)

// Server is an API server that is ready.
type Server struct {
	Name string
	// Started is how long it took from launching the first process until the server said that it is ready. Certificates
	// were there before.
	Started time.Duration
	// Admin is a member of system:masters.
	Admin *Client

	dir       string
	etcd      string // where its etcd answers
	files     *pki.Files
	processes []*process
	stays     int // how many of them go on when it is restarted
	relaunch  func(context.Context) error
}

// StartProviso runs `proviso serve` with the given flags besides.
func StartProviso(ctx context.Context, bins Binaries, name string, flags ...string) (*Server, error) {
	s, port, err := prepare(name)
	if err != nil {
		return nil, err
	}
	s.etcd = "unix://" + filepath.Join(s.dir, "etcd", "client.sock")
	return s, s.serve(ctx, bins, port, flags)
}

// StartProvisoOn runs etcd, has it filled, and then `proviso serve` with it, which then runs no controllers.
func StartProvisoOn(ctx context.Context, bins Binaries, name string, fill func(*Server) error) (*Server, error) {
	s, port, err := prepare(name)
	if err != nil {
		return nil, err
	}
	if err := s.startEtcd(ctx, bins); err != nil {
		return nil, err
	}
	s.stays = len(s.processes)
	if err := fill(s); err != nil {
		s.Stop()
		return nil, err
	}
	return s, s.serve(ctx, bins, port, []string{"--etcd-servers", s.etcd})
}

// serve launches a Proviso, now and at every restart.
func (s *Server) serve(ctx context.Context, bins Binaries, port int, flags []string) error {
	args := append([]string{"serve", "--data-dir", s.dir, "--secure-port", strconv.Itoa(port)}, flags...)
	s.relaunch = func(ctx context.Context) error {
		began := time.Now()
		if err := s.launch(ctx, bins.Proviso, args...); err != nil {
			return err
		}
		return s.ready(ctx, began)
	}
	return s.relaunch(ctx)
}

// Restart ends a Proviso and starts it again with what it has stored; Started is then that of the second time.
func (s *Server) Restart(ctx context.Context) error {
	s.Leave()
	return s.relaunch(ctx)
}

// Leave ends a server, and lets its etcd go on.
func (s *Server) Leave() {
	for _, p := range s.processes[s.stays:] {
		p.stop()
	}
	s.processes = s.processes[:s.stays]
}

// StartStock runs etcd with its defaults, and kube-apiserver with the flags that every installer gives it.
func StartStock(ctx context.Context, bins Binaries, name string) (*Server, error) {
	s, port, err := prepare(name)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.startEtcd(ctx, bins); err != nil {
		return nil, err
	}
	s.stays = len(s.processes)
	return s, s.stock(ctx, bins, port, began)
}

// StartStockOn runs kube-apiserver with the etcd of another server, which need not run any more.
func StartStockOn(ctx context.Context, bins Binaries, name string, other *Server) (*Server, error) {
	s, port, err := prepare(name)
	if err != nil {
		return nil, err
	}
	s.etcd = other.etcd
	return s, s.stock(ctx, bins, port, time.Now())
}

func (s *Server) stock(ctx context.Context, bins Binaries, port int, began time.Time) error {
	f := s.files
	err := s.launch(ctx, bins.APIServer, "--etcd-servers", s.etcd, "--secure-port", strconv.Itoa(port), "--bind-address", "127.0.0.1",
		"--cert-dir", filepath.Join(s.dir, "unused"), "--tls-cert-file", f.ServingCert, "--tls-private-key-file", f.ServingKey,
		"--client-ca-file", f.CACert, "--authorization-mode", "Node,RBAC", "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", f.SAPub, "--service-account-signing-key-file", f.SAKey,
		"--requestheader-client-ca-file", f.FrontProxyCACert, "--requestheader-allowed-names", pki.ProxyClientName,
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-", "--proxy-client-cert-file", f.ProxyClientCert, "--proxy-client-key-file", f.ProxyClientKey)
	if err != nil {
		return err
	}
	return s.ready(ctx, began)
}

// ourControllers are those that Proviso runs itself.
const ourControllers = "serviceaccount-token,serviceaccount,root-ca-cert-publisher,namespace,clusterrole-aggregation,resourcequota,garbagecollector,pvc-protection,pv-protection"

// StartControllers runs kube-controller-manager beside a stock server, with the controllers that Proviso has.
func (s *Server) StartControllers(ctx context.Context, bins Binaries) error {
	path, err := bins.controllerManager(ctx)
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	err = s.launch(ctx, path, "--kubeconfig", s.files.AdminKubeconfig, "--controllers", ourControllers, "--leader-elect=false",
		"--bind-address", "127.0.0.1", "--secure-port", strconv.Itoa(port), "--cert-dir", filepath.Join(s.dir, "unused"),
		"--service-account-private-key-file", s.files.SAKey, "--root-ca-file", s.files.CACert)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: time.Second}
	return s.processes[len(s.processes)-1].await(ctx, "kube-controller-manager", func() bool {
		answer, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/healthz", port))
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
}

// StopControllers ends what StartControllers began.
func (s *Server) StopControllers() {
	last := len(s.processes) - 1
	s.processes[last].stop()
	s.processes = s.processes[:last]
}

// startEtcd runs the etcd of a stock server.
func (s *Server) startEtcd(ctx context.Context, bins Binaries) error {
	var urls [2]string
	for i := range urls {
		port, err := freePort()
		if err != nil {
			return err
		}
		urls[i] = fmt.Sprintf("http://127.0.0.1:%d", port)
	}
	err := s.launch(ctx, bins.Etcd, "--data-dir", filepath.Join(s.dir, "etcd"), "--log-level", "error",
		"--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
		"--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--initial-cluster", "default="+urls[1],
		"--quota-backend-bytes", strconv.Itoa(8<<30))
	if err != nil {
		return err
	}
	s.etcd = urls[0]
	return s.processes[0].healthy(ctx, urls[0])
}

// prepare makes a directory with certificates. Its path is short, because that of a unix socket is limited to 108
// bytes.
func prepare(name string) (*Server, int, error) { return prepareAs(name) }

// prepareAs also takes the authorities of the first of others, if there is one.
func prepareAs(name string, others ...*Server) (*Server, int, error) {
	port, err := freePort()
	if err != nil {
		return nil, 0, err
	}
	dir, err := os.MkdirTemp("", "pvb")
	if err != nil {
		return nil, 0, err
	}
	s := &Server{Name: name, dir: dir}
	if len(others) > 0 {
		if err := copyPrivate(filepath.Join(dir, "pki"), filepath.Join(others[0].dir, "pki")); err != nil {
			return nil, 0, err
		}
	}
	if s.files, err = pki.Ensure(dir, pki.Config{BindAddress: net.IPv4(127, 0, 0, 1), Port: port}); err != nil {
		return nil, 0, err
	}
	config, err := os.ReadFile(s.files.AdminKubeconfig)
	if err != nil {
		return nil, 0, err
	}
	s.Admin, err = newClient(config, false)
	return s, port, err
}

// copyPrivate copies a directory, for nobody else to read.
func copyPrivate(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o600)
	})
}

func (s *Server) launch(ctx context.Context, path string, args ...string) error {
	p, err := spawn(ctx, s.dir, path, args...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return err
}

func (s *Server) ready(ctx context.Context, began time.Time) error {
	p := s.processes[len(s.processes)-1]
	err := p.await(ctx, s.Name, func() bool {
		status, _, err := s.Admin.Do(ctx, http.MethodGet, "/readyz", nil)
		return err == nil && status == http.StatusOK
	})
	s.Started = time.Since(began)
	if err != nil {
		s.Stop()
	}
	return err
}

// User returns a client with a certificate of its own.
func (s *Server) User(name string, groups ...string) (*Client, error) {
	return s.client(name, groups, false)
}

// Connection returns a client like User that has one connection for all of its requests and watches.
func (s *Server) Connection(name string, groups ...string) (*Client, error) {
	return s.client(name, groups, true)
}

func (s *Server) client(name string, groups []string, single bool) (*Client, error) {
	config, err := pki.IssueClient(s.files, pki.ClientRequest{User: name, Groups: groups, TTL: 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	return newClient(config, single)
}

// Resident is the memory of all its processes, or 0 where the system does not say.
func (s *Server) Resident() (sum int64) {
	for _, p := range s.processes {
		sum += p.resident()
	}
	return sum
}

// ResidentAlone is Resident without an etcd that is a process of its own.
func (s *Server) ResidentAlone() (sum int64) {
	for _, p := range s.processes[s.stays:] {
		sum += p.resident()
	}
	return sum
}

// Worked is the processor time of all its processes so far, in steps of 10 ms, or 0 where the system does not say.
func (s *Server) Worked() (sum time.Duration) {
	for _, p := range s.processes {
		sum += p.worked()
	}
	return sum
}

// Stop ends the server and removes its data.
func (s *Server) Stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].stop()
	}
	_ = os.RemoveAll(s.dir)
}
