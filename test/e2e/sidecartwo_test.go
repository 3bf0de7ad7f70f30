package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"proviso.dev/proviso/test/stock"
)

// SC-3, SC-13: two kube-apiservers of one cluster, each with its sidecar, on one etcd. Each may fail while the other
// goes on; a sidecar that is cut off from its etcd decides by what it knew for as long as `init` said, and no longer;
// and while all that happens nobody gets by what is forbidden.
func TestSidecarTwoOfEach(t *testing.T) {
	if os.Getenv("PROVISO_SOAK") == "" {
		t.Skip("PROVISO_SOAK is not set: run `go run ./hack/prove faults-sidecar`")
	}
	t.Parallel()
	const limit = 30 * time.Second
	one := startPairOf(t, stock.Config{SharedEtcd: true})
	line := tap(t, strings.TrimPrefix(one.Store, "http://"))
	two := startPairOf(t, stock.Config{Of: one.Pair, Init: []string{"--etcd-servers=http://" + line.address, "--policy-max-staleness=" + limit.String()}})
	one.kubectl("apply", "-f", filepath.Join(one.Side, "cluster.yaml"))
	one.honoured()
	two.honoured()
	one.kubectl("create", "namespace", "team")
	one.apply(sidecarPolicy)
	both := []*pair{one, two}
	fresh := func(*pair) string { return sized(fmt.Sprintf("x-%d", time.Now().UnixNano()), "small") }
	for _, p := range both {
		p.refused("anna", sized("unmet", "big"), "was not met")
		p.allowed("anna", fresh(p))
		p.refused("rob", configMapWith("owned", "owner", "rob"), "owner")
		p.refused("rob", configMapWith("gold", "tier", "gold"), "tier")
	}
	probes := []*prober{one.probe(t), two.probe(t)}

	for i, p := range both {
		other := both[1-i]
		p.car.kill()
		p.refused("rob", sized("down", "small"), "")
		other.allowed("anna", fresh(other))
		p.run(t)
		p.honoured()
		p.process.kill()
		other.allowed("anna", fresh(other))
		p.serve(t)
		p.honoured()
		p.allowed("anna", fresh(p))
	}

	// The second sidecar hears nothing more, without knowing it, and anna loses her right.
	line.hold()
	cut := time.Now()
	one.kubectl("-n", "team", "delete", "rolebinding.authorization.proviso.dev", "small")
	one.refused("anna", fresh(one), "cannot create")
	last := cut
	two.await("the second sidecar to refuse", func() bool {
		began := time.Now()
		out, err := two.as("anna", fresh(two))
		if err == nil {
			last = began
			if began.Sub(cut) > limit {
				t.Fatalf("anna is allowed %s after the sidecar was cut off", began.Sub(cut))
			}
		}
		return strings.Contains(out, "has not heard from etcd")
	})
	t.Logf("a sidecar that was cut off let the last request pass that began %s later, with a limit of %s", last.Sub(cut).Round(time.Millisecond), limit)
	two.refused("rob", sized("rbac", "small"), "has not heard from etcd")
	one.allowed("rob", fresh(one))
	two.kubectl("get", "namespace", "team") // a cluster admin mends it
	line.release()
	two.refused("anna", fresh(two), "cannot create")
	two.allowed("rob", fresh(two))
	one.apply(sidecarPolicy)
	for i, p := range both {
		p.allowed("anna", fresh(p))
		probes[i].goesOn()
		probes[i].nothing("with two of each")
		tries, _ := probes[i].end(time.Now(), time.Now())
		t.Logf("%d forbidden requests to server %d", tries, i+1)
	}
}

// wire passes bytes on, until it is held: then nothing comes through, and nobody is told.
type wire struct {
	address string

	mu   sync.Mutex
	held chan struct{} // closed while it is not
}

func tap(t *testing.T, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	w := &wire{address: listener.Addr().String(), held: make(chan struct{})}
	close(w.held)
	ended := t.Context().Done()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				_ = from.Close()
				continue
			}
			go w.pass(from, there, ended)
			go w.pass(there, from, ended)
		}
	}()
	return w
}

func (w *wire) pass(from, to net.Conn, ended <-chan struct{}) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		w.mu.Lock()
		held := w.held
		w.mu.Unlock()
		select {
		case <-held:
		case <-ended:
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = make(chan struct{})
}

func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.held)
}
