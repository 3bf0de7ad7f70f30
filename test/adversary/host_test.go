package adversary

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/test/inprocess"
	"proviso.dev/proviso/test/inprocess/byflags"
)

func TestMain(m *testing.M) { inprocess.Main(m) }

// host is a server running in this process, with its controllers.
type host struct {
	*inprocess.Server
	url string
	// admin is in system:masters; proxy logs anybody in; anonymous needs a token.
	admin, proxy, anonymous *http.Client
}

func serve(t testing.TB) *host {
	t.Helper()
	s := byflags.Serve(t, "--controllers=*,-resourcequota", "--feature-gates=NarrowedTokens=true", "--audit-dynamic-allow-insecure-sinks")
	h := &host{Server: s, url: s.Admin.Host}
	files, err := pki.Open(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	own := s.Admin.TLSClientConfig
	for client, tls := range map[**http.Client]rest.TLSClientConfig{
		&h.admin:     own,
		&h.proxy:     {CAData: own.CAData, CAFile: own.CAFile, CertFile: files.ProxyClientCert, KeyFile: files.ProxyClientKey},
		&h.anonymous: {CAData: own.CAData, CAFile: own.CAFile},
	} {
		if *client, err = rest.HTTPClientFor(&rest.Config{Host: h.url, TLSClientConfig: tls}); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// await polls for a condition and fails the test if the server stops first.
func (h *host) await(what string, condition func() bool) {
	h.T.Helper()
	h.Await(what, func() (bool, error) { return condition(), nil })
}
