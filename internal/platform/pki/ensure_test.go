package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"
)

var testTime = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func testConfig() (Config, *clocktesting.FakeClock) {
	clk := clocktesting.NewFakeClock(testTime)
	return Config{Port: 6443, Hostname: "Build-Host", Clock: clk, noSync: true}, clk
}

func mustEnsure(t *testing.T, dir string, cfg Config) *Files {
	t.Helper()
	files, err := Ensure(dir, cfg)
	if err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	return files
}

// contents maps each file below dir to its mode and content.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		out[rel] = info.Mode().String()
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[rel] += " " + string(data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func certOf(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	certs, err := certutil.CertsFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return certs[0]
}

// SV-1: everything a server needs is generated, private, and reused by the next start byte for byte.
func TestEnsureCreatesThenReuses(t *testing.T) {
	dir := t.TempDir()
	cfg, clk := testConfig()
	first := mustEnsure(t, dir, cfg)
	if len(first.Changed) == 0 {
		t.Error("the first call reports nothing created")
	}
	before := contents(t, dir)
	for rel, content := range before {
		if rel == "." {
			continue
		}
		if want := "-rw------- "; !strings.HasPrefix(content, want) && content != "drwx------" {
			t.Errorf("%s has mode %.10s", rel, content)
		}
	}
	for _, rel := range []string{"pki/ca.crt", "pki/ca.key", "pki/apiserver.crt", "pki/apiserver.key", "pki/sa.key", "pki/sa.pub",
		"pki/front-proxy-ca.crt", "pki/front-proxy-client.crt", "pki/front-proxy-client.key", "pki/apiserver-kubelet-client.crt",
		"pki/etcd/ca.crt", "pki/etcd/server.crt", "pki/etcd/client.crt", "admin.kubeconfig"} {
		if before[rel] == "" {
			t.Errorf("%s is missing", rel)
		}
	}
	clk.Step(24 * time.Hour)
	second := mustEnsure(t, dir, cfg)
	if len(second.Changed) != 0 {
		t.Errorf("the second call changed %v", second.Changed)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("the second call changed files:\n%s", diff)
	}
}

// SV-1: the kubeconfig logs in as kubernetes-admin of system:masters over every name the server goes by, and with no
// certificate of another family.
func TestCertificatesWorkTogether(t *testing.T) {
	dir := t.TempDir()
	cfg, _ := testConfig()
	cfg.Clock = nil
	files := mustEnsure(t, dir, cfg)
	pair, err := tls.LoadX509KeyPair(files.ServingCert, files.ServingKey)
	if err != nil {
		t.Fatal(err)
	}
	clientCAs, err := certutil.NewPool(files.CACert)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := r.TLS.PeerCertificates[0].Subject
		_, _ = io.WriteString(w, s.CommonName+"/"+strings.Join(s.Organization, ","))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clientCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	defer server.Close()

	kubeconfig, err := clientcmd.LoadFromFile(files.AdminKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if got := kubeconfig.Clusters["proviso"].Server; got != "https://127.0.0.1:6443" {
		t.Errorf("kubeconfig points to %s", got)
	}
	user := kubeconfig.AuthInfos["kubernetes-admin"]
	admin, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(kubeconfig.Clusters["proviso"].CertificateAuthorityData)
	call := func(cert tls.Certificate, serverName string) (string, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: roots, Certificates: []tls.Certificate{cert}, ServerName: serverName}}}
		defer client.CloseIdleConnections()
		resp, err := client.Get(server.URL)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", "10.0.0.1", "build-host"} {
		if got, err := call(admin, name); err != nil || got != "kubernetes-admin/system:masters" {
			t.Errorf("as %s: %q, %v", name, got, err)
		}
	}
	if got, err := call(admin, "other"); err == nil {
		t.Errorf("the serving certificate is accepted for another name: %q", got)
	}
	for _, foreign := range [][2]string{{files.ProxyClientCert, files.ProxyClientKey}, {files.EtcdClientCert, files.EtcdClientKey}} {
		cert, err := tls.LoadX509KeyPair(foreign[0], foreign[1])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := call(cert, "localhost"); err == nil {
			t.Errorf("%s logs in as %q", foreign[0], got)
		}
	}
}

// SV-1: a start with another address or port renews what no longer fits, and keeps keys and identity.
func TestEnsureFollowsConfig(t *testing.T) {
	dir := t.TempDir()
	cfg, _ := testConfig()
	files := mustEnsure(t, dir, cfg)
	before := contents(t, dir)

	cfg.BindAddress, cfg.AdvertiseAddress, cfg.Port = net.ParseIP("192.0.2.7"), net.ParseIP("2001:db8::7"), 7443
	cfg.ServiceIPs, cfg.ExtraNames = []net.IP{net.ParseIP("10.96.0.1")}, []string{"api.example.org", "198.51.100.1"}
	second := mustEnsure(t, dir, cfg)
	if diff := cmp.Diff([]string{files.ServingCert, files.AdminKubeconfig}, second.Changed); diff != "" {
		t.Errorf("changed files:\n%s", diff)
	}
	cert := certOf(t, files.ServingCert)
	for _, name := range []string{"192.0.2.7", "2001:db8::7", "10.96.0.1", "api.example.org", "198.51.100.1", "localhost"} {
		if err := cert.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if server, err := files.Server(); err != nil || server != "https://192.0.2.7:7443" {
		t.Errorf("kubeconfig points to %q, %v", server, err)
	}
	after := contents(t, dir)
	for _, rel := range []string{"pki/ca.crt", "pki/ca.key", "pki/apiserver.key", "pki/sa.key"} {
		if before[rel] != after[rel] {
			t.Errorf("%s changed", rel)
		}
	}
}

// Each thing the serving certificate must cover makes it renewed alone.
func TestServingCertificateCovers(t *testing.T) {
	good, _ := testConfig()
	for name, change := range map[string]func(*Config){
		"bind address":      func(c *Config) { c.BindAddress = net.ParseIP("192.0.2.7") },
		"advertise address": func(c *Config) { c.AdvertiseAddress = net.ParseIP("192.0.2.8") },
		"service address":   func(c *Config) { c.ServiceIPs = []net.IP{net.ParseIP("10.96.0.1")} },
		"cluster domain":    func(c *Config) { c.ClusterDomain = "example.org" },
		"host name":         func(c *Config) { c.Hostname = "renamed" },
		"extra name":        func(c *Config) { c.ExtraNames = []string{"api.example.org"} },
		"extra address":     func(c *Config) { c.ExtraNames = []string{"198.51.100.1"} },
	} {
		dir, cfg := t.TempDir(), good
		files := mustEnsure(t, dir, cfg)
		change(&cfg)
		if again := mustEnsure(t, dir, cfg); len(again.Changed) == 0 || again.Changed[0] != files.ServingCert {
			t.Errorf("%s: changed %v", name, again.Changed)
		}
		// What it covers beyond that does no harm.
		cfg.Hostname, cfg.ExtraNames = good.Hostname, nil
		if again := mustEnsure(t, dir, cfg); name != "host name" && len(again.Changed) != 0 {
			t.Errorf("%s: changed %v although it covers enough", name, again.Changed)
		}
	}
}

// A wildcard address has no certificate of its own: the kubeconfig uses loopback.
func TestServerURL(t *testing.T) {
	for bind, want := range map[string]string{"": "https://127.0.0.1:6443", "0.0.0.0": "https://127.0.0.1:6443", "::": "https://127.0.0.1:6443",
		"127.0.0.1": "https://127.0.0.1:6443", "192.0.2.7": "https://192.0.2.7:6443", "2001:db8::7": "https://[2001:db8::7]:6443"} {
		if got := (Config{BindAddress: net.ParseIP(bind), Port: 6443}).serverURL(); got != want {
			t.Errorf("%q: %s, want %s", bind, got, want)
		}
	}
}

// Entries that a user added to the kubeconfig survive a renewal.
func TestKubeconfigKeepsForeignEntries(t *testing.T) {
	dir := t.TempDir()
	cfg, _ := testConfig()
	files := mustEnsure(t, dir, cfg)
	config, err := clientcmd.LoadFromFile(files.AdminKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts["mine"] = config.Contexts["kubernetes-admin@proviso"].DeepCopy()
	config.Contexts["mine"].Namespace = "team-a"
	config.CurrentContext = "mine"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.AdminKubeconfig, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Port = 7443
	mustEnsure(t, dir, cfg)
	config, err = clientcmd.LoadFromFile(files.AdminKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if config.CurrentContext != "mine" || config.Contexts["mine"].Namespace != "team-a" {
		t.Errorf("the user's context is lost: %+v", config.Contexts)
	}
	if got := config.Clusters["proviso"].Server; got != "https://127.0.0.1:7443" {
		t.Errorf("kubeconfig points to %s", got)
	}
}

func TestConfigRefusals(t *testing.T) {
	good, _ := testConfig()
	for name, change := range map[string]func(*Config){
		"no port":      func(c *Config) { c.Port = 0 },
		"port too big": func(c *Config) { c.Port = 65536 },
		"bad name":     func(c *Config) { c.ExtraNames = []string{"no spaces"} },
		"bad life":     func(c *Config) { c.LeafLife = -time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := good
			change(&cfg)
			if _, err := Ensure(dir, cfg); err == nil {
				t.Error("accepted")
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 0 {
				t.Errorf("files were written: %v", entries)
			}
		})
	}
	// A machine with a name no certificate can hold still starts.
	good.Hostname = "bad_host name"
	mustEnsure(t, t.TempDir(), good)
}

// SV-1: for every step at which the process can be killed, the next start completes, and loses nothing that was
// complete before.
func TestEnsureSurvivesCrashAtEveryStep(t *testing.T) {
	crash := errors.New("crash")
	steps := 0
	run := func(dir string, at int, cfg Config) error {
		steps = 0
		cfg.fault = func(string, string) error {
			if steps++; steps == at {
				return crash
			}
			return nil
		}
		_, err := Ensure(dir, cfg)
		return err
	}
	cfg, clk := testConfig()
	if err := run(t.TempDir(), 0, cfg); err != nil {
		t.Fatal(err)
	}
	total := steps
	if total < 3*16 {
		t.Fatalf("only %d steps: some write is not covered", total)
	}
	for at := 1; at <= total; at++ {
		dir := t.TempDir()
		clk.SetTime(testTime)
		if err := run(dir, at, cfg); !errors.Is(err, crash) {
			t.Fatalf("step %d: %v", at, err)
		}
		before := contents(t, dir)
		if err := run(dir, 0, cfg); err != nil {
			t.Fatalf("after a crash at step %d: %v", at, err)
		}
		after := contents(t, dir)
		for rel, content := range before {
			temp := strings.Contains(rel, tempMark)
			if _, left := after[rel]; temp && left {
				t.Errorf("step %d: %s is left behind", at, rel)
			}
			if !temp && after[rel] != content {
				t.Errorf("step %d: %s was made again", at, rel)
			}
		}
	}
	// The same for renewals: a crash amid one leaves pairs that fit.
	clk.SetTime(testTime)
	whole := t.TempDir()
	if err := run(whole, 0, cfg); err != nil {
		t.Fatal(err)
	}
	clk.SetTime(testTime.Add(350 * 24 * time.Hour))
	if err := run(copyOf(t, whole), 0, cfg); err != nil {
		t.Fatal(err)
	}
	if total = steps; total != 3*6 {
		t.Fatalf("the renewal takes %d steps", total)
	}
	for at := 1; at <= total; at++ {
		dir := copyOf(t, whole)
		if err := run(dir, at, cfg); !errors.Is(err, crash) {
			t.Fatal(err)
		}
		if err := run(dir, 0, cfg); err != nil {
			t.Fatalf("after a crash at step %d of a renewal: %v", at, err)
		}
	}
}

// SV-1: certificates are renewed in time, on the same key, and stay valid for what was handed out before.
func TestEnsureRenewsBeforeExpiry(t *testing.T) {
	dir := t.TempDir()
	cfg, clk := testConfig()
	files := mustEnsure(t, dir, cfg)
	old := certOf(t, files.ServingCert)
	clk.SetTime(old.NotAfter.Add(-31 * 24 * time.Hour))
	if again := mustEnsure(t, dir, cfg); len(again.Changed) != 0 {
		t.Errorf("renewed too early: %v", again.Changed)
	}
	clk.SetTime(old.NotAfter.Add(-30 * 24 * time.Hour))
	again := mustEnsure(t, dir, cfg)
	want := []string{files.ServingCert, files.KubeletClientCert, files.AdminKubeconfig, files.ProxyClientCert, files.EtcdServerCert, files.EtcdClientCert}
	if diff := cmp.Diff(want, again.Changed); diff != "" {
		t.Errorf("renewed files:\n%s", diff)
	}
	renewed := certOf(t, files.ServingCert)
	if !samePublic(old.PublicKey, renewed.PublicKey) {
		t.Error("the renewal changed the key")
	}
	if got := renewed.NotAfter.Sub(clk.Now()); got != defaultLeafLife {
		t.Errorf("renewed for %v", got)
	}
	// A clock that was ahead and is set right leaves certificates of the future.
	clk.SetTime(renewed.NotBefore.Add(-time.Hour))
	mustEnsure(t, dir, cfg)
	if begin := certOf(t, files.ServingCert).NotBefore; begin.After(clk.Now()) {
		t.Errorf("a certificate of the future was reused: %v", begin)
	}
	// A server that stood still for years starts again, too.
	clk.SetTime(renewed.NotAfter.Add(365 * 24 * time.Hour))
	mustEnsure(t, dir, cfg)
	if end := certOf(t, files.ServingCert).NotAfter; !end.After(clk.Now()) {
		t.Errorf("an expired certificate was reused: %v", end)
	}
}

// The authority is extended on its own key: what the old certificate signed or trusts, the new one does as well. One
// that has ended, or that somebody else made, is refused rather than replaced.
func TestAuthorityRenewal(t *testing.T) {
	dir := t.TempDir()
	cfg, clk := testConfig()
	files := mustEnsure(t, dir, cfg)
	old := certOf(t, files.CACert)
	clk.SetTime(old.NotAfter.Add(-life(old) / 4))
	mustEnsure(t, dir, cfg)
	renewed, leaf := certOf(t, files.CACert), certOf(t, files.ServingCert)
	if !renewed.NotAfter.After(old.NotAfter) {
		t.Fatal("the authority was not extended")
	}
	for _, ca := range []*x509.Certificate{old, renewed} {
		roots := x509.NewCertPool()
		roots.AddCert(ca)
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: clk.Now(), DNSName: "localhost"}); err != nil {
			t.Error(err)
		}
	}
	clk.SetTime(renewed.NotAfter.Add(time.Hour))
	if _, err := Ensure(dir, cfg); err == nil || !strings.Contains(err.Error(), files.CACert+" expired on") {
		t.Errorf("expired authority: %v", err)
	}
	clk.SetTime(renewed.NotBefore.Add(-time.Hour))
	if _, err := Ensure(dir, cfg); err == nil || !strings.Contains(err.Error(), "check this machine's clock") {
		t.Errorf("authority of the future: %v", err)
	}
}

// With an authority that is not renewed, leaves end with it, and renewing them ends too.
func TestLeafEndsWithForeignAuthority(t *testing.T) {
	dir := t.TempDir()
	cfg, clk := testConfig()
	key, encoded, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := selfSign("somebody-else", key, testTime, testTime.Add(100*24*time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"ca.key": encoded, "ca.crt": cert} {
		if err := os.WriteFile(filepath.Join(dir, "pki", name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := mustEnsure(t, dir, cfg)
	if end := certOf(t, files.ServingCert).NotAfter; !end.Equal(testTime.Add(100 * 24 * time.Hour)) {
		t.Errorf("the leaf ends %v", end)
	}
	clk.SetTime(testTime.Add(99 * 24 * time.Hour))
	if again := mustEnsure(t, dir, cfg); len(again.Changed) != 0 {
		t.Errorf("renewed in vain: %v", again.Changed)
	}
}
