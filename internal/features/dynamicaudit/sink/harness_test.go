package sink

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// httpSink is a real HTTPS server that receives audit events, and can be told to misbehave.
type httpSink struct {
	*httptest.Server
	mu      sync.Mutex
	changed chan struct{}
	events  []auditinternal.Event
	batches [][]string // audit IDs
	times   []time.Time
	bodies  []string
	answer  func(w http.ResponseWriter, r *http.Request) (handled bool)

	connections atomic.Int32
}

func newHTTPSink(t testing.TB) *httpSink {
	t.Helper()
	s := &httpSink{changed: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// received is what has arrived so far.
func (s *httpSink) received() []auditinternal.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

func (s *httpSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "not a batch", http.StatusBadRequest)
		return
	}
	obj, err := runtime.Decode(audit.Codecs.UniversalDecoder(), body)
	list, ok := obj.(*auditinternal.EventList)
	if err != nil || !ok {
		http.Error(w, "not an event list", http.StatusUnprocessableEntity)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, ev := range list.Items {
		ids = append(ids, string(ev.AuditID))
	}
	s.events, s.batches, s.times = append(s.events, list.Items...), append(s.batches, ids), append(s.times, time.Now())
	s.bodies = append(s.bodies, string(body))
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *httpSink) misbehave(answer func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// patient is how long a test waits for what has to come, on the slowest machine.
const patient = 2 * time.Minute

// await returns the events once there are n.
func (s *httpSink) await(t testing.TB, n int) []auditinternal.Event {
	t.Helper()
	deadline := time.After(patient)
	for {
		s.mu.Lock()
		events, changed := slices.Clone(s.events), s.changed
		s.mu.Unlock()
		if len(events) >= n {
			return events
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%d events, want %d", len(events), n)
		}
	}
}

func ids(events []auditinternal.Event) (out []string) {
	for _, ev := range events {
		out = append(out, string(ev.AuditID))
	}
	return out
}

// eventually waits for a condition that nothing announces.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: ", what)
		}
	}
}

func (s *httpSink) caBundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// sinkAt is an AuditSink that records everything at a level and sends it to url, as fast as it can.
func sinkAt(name string, level v1alpha1.Level, url string, ca []byte) *v1alpha1.AuditSink {
	s := &v1alpha1.AuditSink{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec: v1alpha1.AuditSinkSpec{
			Policy: v1alpha1.Policy{Level: level},
			Webhook: &v1alpha1.Webhook{
				Throttle:     &v1alpha1.WebhookThrottleConfig{QPS: new(int64(100000)), Burst: new(int64(100000))},
				ClientConfig: v1alpha1.WebhookClientConfig{URL: &url, CABundle: ca},
			},
		},
	}
	return s
}

func (s *httpSink) object(name string, level v1alpha1.Level) *v1alpha1.AuditSink {
	return sinkAt(name, level, s.URL, s.caBundle())
}

func startRouter(t testing.TB, cfg Config) *Router {
	t.Helper()
	r := newRouter(t, cfg)
	if err := r.Run(make(chan struct{})); err != nil {
		t.Fatal(err)
	}
	return r
}

func newRouter(t testing.TB, cfg Config) *Router {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = quickDir(t)
	}
	if cfg.MinBackoff == 0 {
		cfg.MinBackoff, cfg.MaxBackoff = time.Millisecond, 10*time.Millisecond
	}
	if cfg.FlushTimeout == 0 {
		cfg.FlushTimeout = 5 * time.Second
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Shutdown)
	return r
}

// testEvent is an event at level RequestResponse with bodies.
func testEvent(id string) *auditinternal.Event {
	return &auditinternal.Event{
		Level: auditinternal.LevelRequestResponse, AuditID: types.UID(id), Stage: auditinternal.StageResponseComplete,
		RequestURI: "/api/v1/namespaces/ns/secrets", Verb: "create", User: authnv1.UserInfo{Username: "alice", Groups: []string{"devs"}},
		ObjectRef:                &auditinternal.ObjectReference{Resource: "secrets", Namespace: "ns", Name: "s", APIVersion: "v1"},
		ResponseStatus:           &metav1.Status{Code: 201},
		RequestObject:            &runtime.Unknown{Raw: []byte(`{"request":"body"}`), ContentType: runtime.ContentTypeJSON},
		ResponseObject:           &runtime.Unknown{Raw: []byte(`{"response":"body"}`), ContentType: runtime.ContentTypeJSON},
		RequestReceivedTimestamp: metav1.NewMicroTime(time.Unix(1700000000, 0)), StageTimestamp: metav1.NewMicroTime(time.Unix(1700000001, 0)),
	}
}

func process(t testing.TB, r *Router, from, to int) (want []string) {
	t.Helper()
	for i := from; i < to; i++ {
		id := fmt.Sprintf("id-%d", i)
		if !r.ProcessEvents(testEvent(id)) {
			t.Fatal("a request was refused")
		}
		want = append(want, id)
	}
	return want
}

func status(t testing.TB, r *Router, name string) SinkStatus {
	t.Helper()
	for _, s := range r.Status() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no status of %s", name)
	return SinkStatus{}
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	t.Cleanup(cancel)
	return ctx
}
