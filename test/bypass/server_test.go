package bypass

import (
	"testing"

	"k8s.io/client-go/rest"

	"proviso.dev/proviso/test/inprocess"
	"proviso.dev/proviso/test/inprocess/byflags"
	"proviso.dev/proviso/test/stock/beside"
)

func TestMain(m *testing.M) { inprocess.Main(m) }

// host is a server running in this process.
type host struct {
	*inprocess.Server
	t     testing.TB
	admin *rest.Config
}

// serve runs a server until the test ends, with every version of every group and every encoding switched on.
func serve(t testing.TB) *host {
	t.Helper()
	if besideStock() {
		s := beside.Start(t)
		return &host{Server: s, t: t, admin: s.Admin}
	}
	s := byflags.Serve(t, "--controllers=serviceaccount", "--runtime-config=api/all=true",
		"--feature-gates=CBORServingAndStorage=true", "--audit-dynamic-allow-insecure-sinks")
	return &host{Server: s, t: t, admin: s.Admin}
}

// await polls for a condition and fails the test if the server stops first.
func (h *host) await(what string, condition func() bool) {
	h.t.Helper()
	h.Await(what, func() (bool, error) { return condition(), nil })
}

// as is a client configuration for a user with a certificate of his own.
func (h *host) as(user string) *rest.Config { return h.As(user) }
