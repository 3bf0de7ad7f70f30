package e2e

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// collector is what a sink points to: a real server that keeps what it is sent.
type collector struct {
	*httptest.Server
	// down breaks every connection before an answer; refused counts them.
	down    atomic.Bool
	refused atomic.Int64
	// stuck keeps every sender waiting until it is closed; waiting counts them.
	stuck   atomic.Pointer[chan struct{}]
	waiting atomic.Int64

	mu     sync.Mutex
	events map[string][]auditv1.Event // by audit ID
	bad    []string
}

func collect(t testing.TB, tls bool) *collector {
	t.Helper()
	c := &collector{events: map[string][]auditv1.Event{}}
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if c.down.Load() {
			c.refused.Add(1)
			panic(http.ErrAbortHandler)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the server died while it was sending
		}
		if stuck := c.stuck.Load(); stuck != nil {
			c.waiting.Add(1)
			defer c.waiting.Add(-1)
			select {
			case <-*stuck:
			case <-r.Context().Done():
				panic(http.ErrAbortHandler) // whoever sent it has given up, and sends it again
			}
		}
		var list auditv1.EventList
		err = json.Unmarshal(body, &list)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil || r.Method != http.MethodPost || list.Kind != "EventList" || list.APIVersion != "audit.k8s.io/v1" || len(list.Items) == 0 {
			c.bad = append(c.bad, r.Method+" "+string(body))
		}
		for _, e := range list.Items {
			c.events[string(e.AuditID)] = append(c.events[string(e.AuditID)], e)
		}
	})
	if tls {
		c.Server = httptest.NewTLSServer(handler)
	} else {
		c.Server = httptest.NewServer(handler)
	}
	t.Cleanup(func() {
		c.release()
		c.CloseClientConnections()
		c.Close()
		if len(c.bad) > 0 {
			t.Errorf("%d posts were no lists of events, such as %.300s", len(c.bad), c.bad[0])
		}
	})
	return c
}

// hang takes what is sent and does not answer, until release.
func (c *collector) hang() {
	stuck := make(chan struct{})
	c.stuck.Store(&stuck)
}

func (c *collector) release() {
	if stuck := c.stuck.Swap(nil); stuck != nil {
		close(*stuck)
	}
}

// of returns the events of a request so far.
func (c *collector) of(id string) []auditv1.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events[id]
}

// webhook is the part of a sink that points here.
func (c *collector) webhook() map[string]any {
	config := map[string]any{"url": c.URL + "/audit"}
	if cert := c.Certificate(); cert != nil {
		config["caBundle"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	}
	return map[string]any{"clientConfig": config}
}

// caller makes requests with audit IDs of its own.
type caller struct {
	t      testing.TB
	client *http.Client
	host   string
}

func (s *server) caller() *caller { return s.callerAs("") }

// callerFrom uses somebody's own credentials.
func (s *server) callerFrom(kubeconfig string) *caller {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return &caller{s.t, client, config.Host}
}

// callerAs acts as somebody else; as the admin without a name.
func (s *server) callerAs(user string, groups ...string) *caller {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	config.Impersonate.UserName, config.Impersonate.Groups = user, groups
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return &caller{s.t, client, config.Host}
}

// send returns the code, or 0 when there was no complete answer.
func (c *caller) send(id, method, path string, object any) (int, string) {
	body, err := json.Marshal(object)
	if err != nil {
		c.t.Error(err)
		return 0, ""
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.host+path, strings.NewReader(string(body)))
	if err != nil {
		c.t.Error(err)
		return 0, ""
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if id != "" {
		req.Header.Set("Audit-ID", id)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(answer)
}

// must fails the test unless the request succeeds.
func (c *caller) must(id, method, path string, object any) {
	c.t.Helper()
	if code, answer := c.send(id, method, path, object); code < 200 || code > 299 {
		c.t.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
}

// object is a small object.
func object(apiVersion, kind, name string, spec any) map[string]any {
	o := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}
	if spec != nil {
		o["spec"] = spec
	}
	return o
}
