package sink

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// DA-10: which addresses a sink must not be at, however they are written.
func TestForbiddenAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1": "loopback", "127.255.0.9": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback", "::ffff:7f00:1": "loopback",
		"169.254.169.254": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "::ffff:169.254.169.254": "link-local", "ff02::1": "link-local", "224.0.0.1": "link-local",
		"0.0.0.0": "unspecified", "0.1.2.3": "unspecified", "::": "unspecified", "::ffff:0.0.0.0": "unspecified",
		"64:ff9b::7f00:1": "loopback", "64:ff9b::a9fe:a9fe": "link-local", "::127.0.0.1": "loopback", "2002:7f00:1::": "loopback", "239.1.2.3": "multicast",
		"10.0.0.1": "", "192.168.1.1": "", "172.16.0.1": "", "8.8.8.8": "", "fd00::1": "", "2001:db8::1": "", "::ffff:10.0.0.1": "", "64:ff9b::808:808": "",
	} {
		err := forbidden(netip.MustParseAddr(address))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
		dialed := refuseAddress("tcp", net.JoinHostPort(address, "443"), nil)
		if (dialed == nil) != (err == nil) {
			t.Errorf("%s: dialing says %v", address, dialed)
		}
	}
}

// DA-10: a sink on this machine is refused, whether its URL says so or a name leads there, and never gets a connection.
// With AllowInsecure the same sink gets its events.
func TestLoopbackIsRefused(t *testing.T) {
	a := newHTTPSink(t)
	_, port, err := net.SplitHostPort(a.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := startRouter(t, Config{})
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"} {
		r.Update([]*v1alpha1.AuditSink{sinkAt("a", "Metadata", "https://"+net.JoinHostPort(strings.Trim(host, "[]"), port), a.caBundle())}, nil)
		process(t, r, 0, 1)
		if s := status(t, r, "a"); s.Active || s.Reason != v1alpha1.ReasonInvalid || !strings.Contains(s.Message, "address") {
			t.Errorf("%s: %+v", host, s)
		}
	}
	r.Update([]*v1alpha1.AuditSink{sinkAt("a", "Metadata", "https://localhost:"+port, a.caBundle())}, nil)
	process(t, r, 0, 1)
	eventually(t, "the dial is refused", func() bool { return strings.Contains(status(t, r, "a").LastError, "loopback") })
	if n := a.connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	open := startRouter(t, Config{AllowInsecure: true})
	open.Update([]*v1alpha1.AuditSink{sinkAt("a", "Metadata", "https://127.0.0.1:"+port, a.caBundle())}, nil)
	process(t, open, 0, 1)
	a.await(t, 1)
}

// DA-10: http is refused unless it is allowed.
func TestPlainHTTP(t *testing.T) {
	plain := &httpSink{changed: make(chan struct{})}
	plain.Server = httptest.NewServer(plain)
	t.Cleanup(plain.Close)
	sinks := []*v1alpha1.AuditSink{sinkAt("a", "Metadata", plain.URL, nil)}
	strict := startRouter(t, Config{})
	strict.Update(sinks, nil)
	if s := status(t, strict, "a"); s.Active || !strings.Contains(s.Message, "https") {
		t.Errorf("%+v", s)
	}
	open := startRouter(t, Config{AllowInsecure: true})
	open.Update(sinks, nil)
	process(t, open, 0, 1)
	plain.await(t, 1)
}

// DA-10: a redirect is not followed; the batch is kept and the reason is shown.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere, a := newHTTPSink(t), newHTTPSink(t)
	for _, code := range []int{301, 302, 303, 307, 308} {
		a.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere.URL+"/secret-place", code)
			return true
		})
		r := startRouter(t, Config{AllowInsecure: true})
		r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata")}, nil)
		process(t, r, 0, 1)
		eventually(t, "refused", func() bool { return strings.Contains(status(t, r, "a").LastError, "redirects are not followed") })
		if s := status(t, r, "a"); s.Spooled != 1 || strings.Contains(s.LastError, "secret-place") {
			t.Errorf("%+v", s)
		}
		r.Shutdown()
	}
	if len(elsewhere.received()) != 0 {
		t.Error("followed")
	}
}

// DA-10: no proxy from the environment is used.
func TestNoProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("ALL_PROXY", "http://127.0.0.1:1")
	target, err := newTarget(targetConfig{timeout: time.Second}, sinkAt("a", "Metadata", "https://10.0.0.1/x", nil).Spec.Webhook, nil)
	if err != nil {
		t.Fatal(err)
	}
	if target.client.Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy would be used")
	}
}

// DA-10: the sink's certificate has to be signed by the bundle.
func TestCertificates(t *testing.T) {
	a := newHTTPSink(t)
	other, _ := selfSigned(t, "other.example.com")
	r := startRouter(t, Config{AllowInsecure: true})
	r.Update([]*v1alpha1.AuditSink{sinkAt("system", "Metadata", a.URL, nil), sinkAt("wrong", "Metadata", a.URL, other), sinkAt("broken", "Metadata", a.URL, []byte("no PEM")), a.object("right", "Metadata")}, nil)
	process(t, r, 0, 1)
	a.await(t, 1)
	for _, name := range []string{"system", "wrong"} {
		eventually(t, name+" is refused", func() bool { return strings.Contains(status(t, r, name).LastError, "certificate") })
	}
	if s := status(t, r, "broken"); s.Active || !strings.Contains(s.Message, "caBundle") {
		t.Errorf("%+v", s)
	}
	if n := len(a.received()); n != 1 {
		t.Errorf("%d events", n)
	}
}

func selfSigned(t testing.TB, name string) (bundle []byte, cert tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// resolverFunc is a ServiceResolver.
type resolverFunc func(namespace, name string, port int32) (*url.URL, error)

func (f resolverFunc) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	return f(namespace, name, port)
}

// DA-10, DA-1: a service is resolved at every dial and has to prove its own name; where it leads is checked like any
// other address.
func TestServiceReference(t *testing.T) {
	ca, cert := selfSigned(t, "collector.audit.svc")
	a := &httpSink{changed: make(chan struct{})}
	var path atomic.Value
	a.Server = httptest.NewUnstartedServer(a)
	a.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	a.StartTLS()
	t.Cleanup(a.Close)
	a.misbehave(func(_ http.ResponseWriter, r *http.Request) bool { path.Store(r.Host + r.URL.Path); return false })
	var asked atomic.Value
	resolver := resolverFunc(func(namespace, name string, port int32) (*url.URL, error) {
		asked.Store([]any{namespace, name, port})
		return url.Parse(a.URL)
	})
	sink := sinkAt("a", "Metadata", "", ca)
	sink.Spec.Webhook.ClientConfig.URL = nil
	sink.Spec.Webhook.ClientConfig.Service = &v1alpha1.ServiceReference{Namespace: "audit", Name: "collector", Path: new("in/box"), Port: new(int32(8443))}
	r := startRouter(t, Config{AllowInsecure: true, Services: resolver})
	r.Update([]*v1alpha1.AuditSink{sink}, nil)
	process(t, r, 0, 1)
	a.await(t, 1)
	if got := asked.Load().([]any); got[0] != "audit" || got[1] != "collector" || got[2] != int32(8443) {
		t.Errorf("asked for %v", got)
	}
	if got := path.Load(); got != "collector.audit.svc:8443/in/box" {
		t.Errorf("sent to %v", got)
	}

	strict := startRouter(t, Config{Services: resolver})
	strict.Update([]*v1alpha1.AuditSink{sink}, nil)
	process(t, strict, 0, 1)
	eventually(t, "a service on this machine is refused", func() bool { return strings.Contains(status(t, strict, "a").LastError, "loopback") })

	failing := startRouter(t, Config{AllowInsecure: true, Services: resolverFunc(func(string, string, int32) (*url.URL, error) { return nil, errors.New("no endpoints") })})
	failing.Update([]*v1alpha1.AuditSink{sink}, nil)
	process(t, failing, 0, 1)
	eventually(t, "an unknown service is an error", func() bool { return strings.Contains(status(t, failing, "a").LastError, "no endpoints") })

	without := startRouter(t, Config{AllowInsecure: true})
	without.Update([]*v1alpha1.AuditSink{sink}, nil)
	if s := status(t, without, "a"); s.Active || !strings.Contains(s.Message, "service") {
		t.Errorf("%+v", s)
	}
}

// DA-10: whatever goes wrong, nothing of the URL but its host is shown, in the status or in the log.
func TestSecretsAreNotShown(t *testing.T) {
	var log bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	defer func() {
		klog.Flush()
		klog.LogToStderr(true)
	}()
	hanging, closing, failing := newHTTPSink(t), newHTTPSink(t), newHTTPSink(t)
	release := make(chan struct{})
	defer close(release)
	hanging.misbehave(func(http.ResponseWriter, *http.Request) bool { <-release; return true })
	closing.misbehave(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	failing.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "hunter2 "+r.URL.String(), 500)
		return true
	})
	const secret = "/hunter2?token=hunter2"
	dead := newHTTPSink(t)
	dead.Close()
	urls := map[string]string{
		"hanging": hanging.URL + secret, "closing": closing.URL + secret, "failing": failing.URL + secret, "dead": dead.URL + secret,
		"user": "https://alice:hunter2@10.0.0.1/", "scheme": "ftp://10.0.0.1" + secret, "parse": "https://10.0.0.1:hunter2/", "control": "https://10.0.0.1/hunter2\x7f",
		"name": "https://does-not-exist.invalid" + secret, "fragment": "https://10.0.0.1/#hunter2", "host": "https:///hunter2",
	}
	r := startRouter(t, Config{AllowInsecure: true, Timeout: 50 * time.Millisecond})
	var sinks []*v1alpha1.AuditSink
	for name, u := range urls {
		sinks = append(sinks, sinkAt(name, "Metadata", u, failing.caBundle()))
	}
	r.Update(sinks, nil)
	process(t, r, 0, 1)
	for name := range urls {
		eventually(t, name+" fails", func() bool { s := status(t, r, name); return s.LastError != "" || !s.Active })
		if s := status(t, r, name); strings.Contains(s.LastError+s.Message, "hunter2") || len(s.LastError) > 400 {
			t.Errorf("%s: %q %q", name, s.LastError, s.Message)
		}
	}
	r.Shutdown()
	klog.Flush()
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("in the log: %s", log.String())
	}
	if !strings.Contains(log.String(), "does not take events") {
		t.Errorf("nothing in the log: %q", log.String())
	}
}
