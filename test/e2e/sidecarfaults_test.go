package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// faults: SC-7, SC-13. Each part fails and comes back while somebody tries forbidden things all the time. Nothing
// passes, but for what was on its way when root took the manifest away, until the sidecar sees it; and the pair
// recovers by itself.
func (p *pair) faults(t *testing.T) {
	t.Helper()
	for round := range soak(1) {
		probe := p.probe(t)
		recovered := func() {
			t.Helper()
			p.honoured()
			probe.goesOn()
			p.allowed("anna", sized(fmt.Sprintf("recovered-%d", time.Now().UnixNano()), "small"))
		}

		p.car.kill()
		p.refused("rob", sized("down", "small"), "")
		p.kubectl("get", "namespace", "team") // a cluster admin mends it
		p.run(t)
		recovered()

		p.process.kill()
		p.serve(t)
		recovered()

		// The sidecar has read nothing when the API server begins to ask it.
		p.car.kill()
		p.process.kill()
		p.run(t)
		p.serve(t)
		recovered()
		probe.nothing("while nobody touched the manifest")

		manifest, away := filepath.Join(p.Side, "static", "proviso.yaml"), filepath.Join(p.Side, "away")
		removed := time.Now()
		if err := os.Rename(manifest, away); err != nil {
			t.Fatal(err)
		}
		p.await("the sidecar to see it", func() bool {
			out, _ := p.check()
			said, err := p.try(sized("folded", "small"), "create", "-f", "-", "--as", "anna", "--dry-run=server")
			return strings.Contains(out, "proviso.yaml is missing") && err != nil && strings.Contains(said, "at the moment")
		})
		noticed := time.Now()
		p.refused("anna", sized("folded", "small"), "at the moment")
		p.refused("rob", configMapWith("unchecked", "owner", "rob"), "cannot be checked")
		probe.goesOn()
		if err := os.Rename(away, manifest); err != nil {
			t.Fatal(err)
		}
		recovered()
		tries, window := probe.end(removed, noticed)
		t.Logf("round %d: %d forbidden requests; the manifest was away for %s, and the last one that passed began %s after its removal", round, tries, time.Since(removed).Round(time.Millisecond), window)
	}
}

// prober tries forbidden things.
type prober struct {
	t    *testing.T
	stop func()
	done sync.WaitGroup

	mu     sync.Mutex
	tries  int
	passed []attempt
}

type attempt struct {
	began time.Time
	what  string
}

// probe begins: a condition that is not met, a protected label and an exclusive one.
func (p *pair) probe(t *testing.T) *prober {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	pr := &prober{t: t, stop: stop}
	for user, labels := range map[string]string{"anna": `{"size": "big"}`, "rob": `{"owner": "rob"}`, "rob ": `{"tier": "gold"}`} {
		who := rest.CopyConfig(config)
		who.Impersonate.UserName = strings.TrimSpace(user)
		client, err := rest.HTTPClientFor(who)
		if err != nil {
			t.Fatal(err)
		}
		pr.done.Go(func() { pr.try(ctx, client, p.URL()+"/api/v1/namespaces/team/configmaps", labels) })
	}
	return pr
}

func (pr *prober) try(ctx context.Context, client *http.Client, url, labels string) {
	body := fmt.Sprintf(`{"metadata": {"generateName": "forbidden-", "labels": %s}}`, labels)
	for ctx.Err() == nil {
		a := attempt{time.Now(), labels}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(body)))
		if err != nil {
			pr.t.Error(err)
			return
		}
		request.Header.Set("Content-Type", "application/json")
		code := 0
		if answer, err := client.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			code = answer.StatusCode
		}
		pr.mu.Lock()
		pr.tries++
		if code/100 == 2 {
			pr.passed = append(pr.passed, a)
		}
		pr.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// goesOn waits for further attempts.
func (pr *prober) goesOn() {
	pr.t.Helper()
	count := func() int { pr.mu.Lock(); defer pr.mu.Unlock(); return pr.tries }
	for want, end := count()+20, time.Now().Add(patience); count() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			pr.t.Fatal("the probe has stopped")
		}
	}
}

func (pr *prober) nothing(when string) {
	pr.t.Helper()
	pr.mu.Lock()
	defer pr.mu.Unlock()
	for _, a := range pr.passed {
		pr.t.Errorf("%s, labels %s passed", when, a.what)
	}
}

// end stops. What passed began between the removal of the manifest and the moment at which the sidecar had seen it.
func (pr *prober) end(removed, noticed time.Time) (tries int, window time.Duration) {
	pr.t.Helper()
	pr.stop()
	pr.done.Wait()
	for _, a := range pr.passed {
		if a.began.After(noticed) {
			pr.t.Errorf("labels %s passed %s after the manifest was removed, and %s after the sidecar had seen it", a.what, a.began.Sub(removed), a.began.Sub(noticed))
		}
		window = max(window, a.began.Sub(removed))
	}
	return pr.tries, window
}
