package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/internal/state/timekeeper"
)

// still are hands that show what a test says, and move only then.
type still struct {
	timekeeper.Hands
	at atomic.Pointer[time.Time]
}

// Now implements timekeeper.Hands.
func (s *still) Now() time.Time { return *s.at.Load() }

// show sets the hands and returns when, by the clock of the test, they showed it for certain.
func (s *still) show(at time.Time) time.Time {
	s.at.Store(&at)
	return time.Now()
}

// TM-17: nothing passes after an edge that the clock of the server has passed: no read, which arrives at an instant,
// and no write, which is admitted at one. The clock of the server moves when the test says so, so that how quick the
// machine is does not matter.
func TestNothingPassesAfterAnEdge(t *testing.T) {
	t.Parallel()
	const edges, readers, each = 20, 4, 15
	hands, base := &still{Hands: timekeeper.Machine()}, time.Now().Truncate(time.Second)
	hands.show(base)
	s := start(t, func(o *apiserver.Options) { o.TellTimeBy(hands) })
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "eg")
	for i := range edges {
		grantFor(t, admin, "eg", fmt.Sprintf("eg%d", i), "cluster-admin", base.Add(time.Duration(i+1)*10*time.Second))
	}
	var passed, late, refused atomic.Int64
	for i := range edges {
		name, edge := fmt.Sprintf("eg%d", i), base.Add(time.Duration(i+1)*10*time.Second)
		hands.show(edge.Add(-time.Millisecond))
		reads := newReader(t, s.as(name))
		s.await("the right of "+name, func() (bool, error) {
			return reads.get("/api/v1/namespaces/eg/configmaps/one").code == http.StatusOK, nil
		})
		var over atomic.Pointer[time.Time]
		var wg sync.WaitGroup
		for range readers {
			wg.Go(func() {
				for after := 0; after < each; {
					began, was := time.Now(), over.Load()
					switch got := reads.get("/api/v1/namespaces/eg/configmaps/one").code; {
					case got != http.StatusOK && got != http.StatusForbidden:
						t.Errorf("answered %d", got)
						return
					case got == http.StatusForbidden:
						refused.Add(1)
					case was != nil && began.After(*was):
						late.Add(1)
						t.Errorf("a read passes that began %s after the edge", began.Sub(*was))
					default:
						passed.Add(1)
					}
					if was != nil {
						after++
					}
				}
			})
		}
		write := holdWrite(t, s.as(name), "/api/v1/namespaces/eg/configmaps", name)
		at := hands.show(edge)
		over.Store(&at)
		if got := write(); got != http.StatusForbidden {
			t.Errorf("a write that was authorized before the edge and admitted after it is answered with %d", got)
		}
		wg.Wait()
	}
	list, err := client.CoreV1().ConfigMaps("eg").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if strings.HasPrefix(o.Name, "eg") {
			t.Errorf("%s was stored", o.Name)
		}
	}
	t.Logf("%d edges: %d reads passed before, %d were refused after, %d passed after; all writes that were admitted after were refused", edges, passed.Load(), refused.Load(), late.Load())
}

// holdWrite begins a write and returns once the server has authorized it and asks for its body. What it returns sends
// the body.
func holdWrite(t *testing.T, as *rest.Config, path, name string) (send func() int) {
	t.Helper()
	config := rest.CopyConfig(as)
	config.NextProtos = []string{"http/1.1"} // it has the handshake
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	wanted, answered := make(chan struct{}), make(chan int, 1)
	body, feed := io.Pipe()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(wanted) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, as.Host+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue")
	go func() {
		resp, err := client.Do(req)
		if err != nil {
			answered <- 0
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	select {
	case <-wanted:
	case code := <-answered:
		t.Fatalf("answered with %d before the body was sent", code)
	}
	return func() int {
		_, _ = fmt.Fprintf(feed, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}}`, name)
		_ = feed.Close()
		return <-answered
	}
}

// TM-11: an approval is soon effective, and so is a revocation. How soon depends on the machine, and is only said.
func TestApprovalsAreSoonEffective(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, bare.get(t), "ac-s")
	w.rule(t, "acs", nil)
	lead := w.lead("acs-lead")
	until := func(reads *reader, code int) time.Duration {
		began := time.Now()
		for reads.get("/api/v1/namespaces/ac-s/configmaps/one").code != code {
			if time.Since(began) > time.Minute {
				t.Fatalf("it is not effective: want %d", code)
			}
		}
		return time.Since(began)
	}
	var given, taken []time.Duration
	for i := range 100 {
		as := w.oncall(fmt.Sprintf("acs-%d", i/40)) // each of them may ask 50 times a day
		reads := newReader(t, as)
		made, err := w.ask(t, as, "acs", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.decide(t.Context(), lead, made, access.Approve); err != nil {
			t.Fatal(err)
		}
		given = append(given, until(reads, http.StatusOK))
		if _, err := w.requests(lead).Revoke(context.Background(), made.Name, &access.AccessDecision{RequestUID: made.UID}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		taken = append(taken, until(reads, http.StatusForbidden))
	}
	for what, all := range map[string][]time.Duration{"approvals": given, "revocations": taken} {
		slices.Sort(all)
		t.Logf("%d %s are effective after %s (median), %s (99th percentile)", len(all), what, all[len(all)/2].Round(10*time.Microsecond), all[len(all)*99/100].Round(10*time.Microsecond))
	}
}
