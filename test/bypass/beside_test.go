package bypass

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/registry"
	"proviso.dev/proviso/test/inprocess"
	"proviso.dev/proviso/test/stock"
)

// beside is the built program with whose side-car the hunt is on a stock server; empty if it is on ours.
func beside() string { return os.Getenv("PROVISO_BESIDE") }

// serveBeside starts a stock server with a side-car (SC-11).
func serveBeside(t testing.TB, proviso string) *host {
	t.Helper()
	var p *stock.Pair
	s := inprocess.Start(t, func(dir string, listener net.Listener) (run inprocess.Run, err error) {
		_ = listener.Close() // it has one of its own
		p, err = stock.Prepare(stock.Config{Proviso: proviso, Dir: dir, Init: []string{"--audit-level=RequestResponse", "--audit-dynamic-allow-insecure-sinks"},
			Server: []string{"--runtime-config=api/all=true", "--endpoint-reconciler-type=none"}})
		if err != nil {
			return nil, err
		}
		return p.Run, nil
	})
	s.AwaitReady()
	h := &host{Server: s, t: t, admin: s.Admin}
	if out, err := exec.Command(proviso, "kubectl", "--kubeconfig", p.Kubeconfig, "apply", "-f", filepath.Join(p.Side, "cluster.yaml")).CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	h.await("conditions to be honoured", func() bool { return exec.Command(proviso, "sidecar", "check", "--dir", p.Side).Run() == nil })
	return h
}

// tells are the answers by which a stock server shows a conditional caller that something exists, or what is wrong with
// his request, before admission refuses it (SC-9).
func tells(o outcome) bool { return beside() != "" && o.code >= 400 && o.code < 500 }

// withoutConditions tells the refusals of conditions that a stock server cannot honour (SC-9).
func withoutConditions(o outcome) bool {
	return beside() != "" && strings.Contains(string(o.answer), "a conditional permission does not reach")
}

// ownVerb tells the connections that need no create on a stock server, but the verb of their method, which the caller
// has (SC-9).
func ownVerb(o outcome) bool { return beside() != "" && o.endpoint.isConnect() && o.verb == "get" }

// notAudited are the health paths, for which the audit policy beside a stock server has None (SC-10).
func notAudited(o outcome) bool {
	return beside() != "" && slices.ContainsFunc(alwaysOpen, func(path string) bool { return strings.HasPrefix(o.path, path) })
}

// bodiless are our own groups: a stock server passes their requests on, and has no bodies of them (SC-9).
func bodiless(o outcome) bool {
	return beside() != "" && slices.Contains(registry.Groups(), o.endpoint.Group)
}
