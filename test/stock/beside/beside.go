// Package beside runs a stock kube-apiserver with a sidecar where tests otherwise run a server of ours (SC-11).
package beside

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"proviso.dev/proviso/test/inprocess"
	"proviso.dev/proviso/test/stock"
)

// Program is the built program whose sidecar stands beside a stock server; empty if tests run on a server of ours.
func Program() string { return os.Getenv("PROVISO_BESIDE") }

// Start starts both, and waits until conditions are honoured.
func Start(t testing.TB) *inprocess.Server {
	t.Helper()
	var p *stock.Pair
	s := inprocess.Start(t, func(dir string, listener net.Listener) (run inprocess.Run, err error) {
		_ = listener.Close() // it has one of its own
		p, err = stock.Prepare(stock.Config{Proviso: Program(), Dir: dir, Init: []string{"--audit-level=RequestResponse", "--audit-dynamic-allow-insecure-sinks"},
			Server: []string{"--runtime-config=api/all=true", "--endpoint-reconciler-type=none"}})
		if err != nil {
			return nil, err
		}
		return p.Run, nil
	})
	s.AwaitReady()
	if out, err := exec.Command(Program(), "kubectl", "--kubeconfig", p.Kubeconfig, "apply", "-f", filepath.Join(p.Side, "cluster.yaml")).CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
	s.Await("conditions to be honoured", func() (bool, error) {
		return exec.Command(Program(), "sidecar", "check", "--dir", p.Side).Run() == nil, nil
	})
	return s
}
