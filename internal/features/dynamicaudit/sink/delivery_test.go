package sink

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// DA-8: a batch is an audit.k8s.io/v1 EventList, in order; batches are bounded.
func TestBatches(t *testing.T) {
	a := newHTTPSink(t)
	release := make(chan struct{})
	a.misbehave(func(http.ResponseWriter, *http.Request) bool { <-release; return false })
	r := startRouter(t, Config{AllowInsecure: true, BatchEvents: 20})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata")}, nil)
	want := process(t, r, 0, 205)
	close(release)
	if diff := cmp.Diff(want, ids(a.await(t, 205))); diff != "" {
		t.Error(diff)
	}
	most := 0
	for _, b := range a.batches {
		most = max(most, len(b))
	}
	if most != 20 {
		t.Errorf("largest batch has %d events, want 20", most)
	}
	if !strings.HasPrefix(a.bodies[0], `{"kind":"EventList","apiVersion":"audit.k8s.io/v1",`) {
		t.Errorf("%.100s", a.bodies[0])
	}
}

// DA-8: errors are retried, with everything that was in the batch, until the sink takes it.
func TestRetries(t *testing.T) {
	a := newHTTPSink(t)
	var attempts atomic.Int32
	answers := []int{500, 503, 429, 404, 400, 301, 204}
	a.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		n := int(attempts.Add(1))
		if n < len(answers) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(answers[n-1])
			return true
		}
		return false
	})
	r := startRouter(t, Config{AllowInsecure: true})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata")}, nil)
	want := process(t, r, 0, 3)
	got := ids(a.await(t, 3))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	eventually(t, "the error is gone", func() bool { s := status(t, r, "a"); return s.LastError == "" && s.Spooled == 0 && s.Lag == 0 })
	s := status(t, r, "a")
	if s.Delivered != 3 || s.Dropped != 0 || s.attempts.failed != 6 || s.attempts.succeeded < 1 {
		t.Errorf("%+v", s)
	}
}

// DA-8: the sink breaks the connection in the middle of an answer, or of the request.
func TestBrokenConnections(t *testing.T) {
	a := newHTTPSink(t)
	var attempts atomic.Int32
	a.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		switch attempts.Add(1) {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			_, _ = io.CopyN(io.Discard, r.Body, 10)
			panic(http.ErrAbortHandler)
		case 3:
			w.WriteHeader(http.StatusOK)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		default:
			return false
		}
	})
	r := startRouter(t, Config{AllowInsecure: true})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata")}, nil)
	process(t, r, 0, 1)
	eventually(t, "three attempts", func() bool { return attempts.Load() >= 3 })
	want := process(t, r, 1, 100)
	got := ids(a.await(t, 99))
	if diff := cmp.Diff(want[len(want)-90:], got[len(got)-90:]); diff != "" {
		t.Error(diff)
	}
}

// DA-6, DA-8: a sink that hangs or is dead delays neither requests nor other sinks, holds a bounded amount of memory,
// and gets everything once it lives again.
func TestHangingSink(t *testing.T) {
	good, hanging, dead := newHTTPSink(t), newHTTPSink(t), newHTTPSink(t)
	release := make(chan struct{})
	hanging.misbehave(func(_ http.ResponseWriter, r *http.Request) bool {
		<-release
		_, err := io.Copy(io.Discard, r.Body)
		return err == nil
	})
	deadURL := dead.URL
	dead.Close()
	r := startRouter(t, Config{AllowInsecure: true})
	r.Update([]*v1alpha1.AuditSink{hanging.object("hanging", "RequestResponse"), sinkAt("dead", "Metadata", deadURL, nil), good.object("good", "Metadata")}, nil)
	const n = 4000
	before := heap()
	slowest := time.Duration(0)
	for i := range n {
		ev := testEvent(fmt.Sprintf("id-%d", i))
		ev.ResponseObject.Raw = []byte(`"` + strings.Repeat("x", 20000) + `"`)
		start := time.Now()
		r.ProcessEvents(ev)
		slowest = max(slowest, time.Since(start))
	}
	if slowest > 25*time.Second { // a sink that hangs is given up after 30
		t.Errorf("one request took %v", slowest)
	}
	if s := status(t, r, "hanging"); s.Spooled != n || s.SpoolBytes < n*20000 {
		t.Errorf("%+v", s)
	}
	good.await(t, n)
	if grown := heap() - before; grown > 64<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
	if s := status(t, r, "dead"); s.LastError == "" || s.Spooled != n || s.Lag <= 0 {
		t.Errorf("%+v", s)
	}
	close(release)
	eventually(t, "the sink that hung has everything", func() bool { s := status(t, r, "hanging"); return s.Delivered == n && s.Spooled == 0 && s.Dropped == 0 })
}

// heap is what is in use after a collection, without what the test's own sinks have recorded.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// DA-8: when a dead sink's spool is full, the oldest events are dropped and counted; delivery goes on with the rest.
func TestFullSpoolIsCounted(t *testing.T) {
	a := newHTTPSink(t)
	a.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(503)
		return true
	})
	r := startRouter(t, Config{AllowInsecure: true, SpoolBytes: 256 << 10})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata")}, nil)
	const n = 2000
	want := process(t, r, 0, n)
	s := status(t, r, "a")
	if s.Dropped == 0 || s.Drops.Full != s.Dropped || s.Dropped+s.Spooled != n || s.SpoolBytes > 256<<10 {
		t.Fatalf("%+v", s)
	}
	a.misbehave(nil)
	eventually(t, "all is delivered", func() bool { return status(t, r, "a").Spooled == 0 })
	s = status(t, r, "a")
	got := ids(a.await(t, int(s.Delivered)))
	if s.Delivered+s.Dropped != n || len(got) != int(s.Delivered) || got[len(got)-1] != want[n-1] {
		t.Errorf("%d events arrived, the last is %s; %+v", len(got), got[len(got)-1], s)
	}
	for i, at := 0, 0; i < len(got); i++ {
		next := slices.Index(want[at:], got[i])
		if next < 0 {
			t.Fatalf("%s is out of order or repeated", got[i])
		}
		at += next + 1
	}
}

// DA-8: throttle is in batches per second.
func TestThrottle(t *testing.T) {
	a := newHTTPSink(t)
	r := startRouter(t, Config{AllowInsecure: true, BatchEvents: 1})
	sink := a.object("a", "Metadata")
	sink.Spec.Webhook.Throttle = &v1alpha1.WebhookThrottleConfig{QPS: new(int64(10)), Burst: new(int64(2))}
	r.Update([]*v1alpha1.AuditSink{sink}, nil)
	process(t, r, 0, 6)
	a.await(t, 6)
	// Two at once, then one every 100 ms.
	if took := a.times[5].Sub(a.times[0]); took < 350*time.Millisecond {
		t.Errorf("6 batches in %v at 10 per second with a burst of 2", took)
	}
}

// DA-8: a sink that finds batches too large gets smaller ones; an event that is too large alone loses its bodies.
func TestTooLargeForTheSink(t *testing.T) {
	a := newHTTPSink(t)
	a.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if r.ContentLength > 3000 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return true
		}
		return false
	})
	r := startRouter(t, Config{AllowInsecure: true})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "RequestResponse")}, nil)
	large := testEvent("large")
	large.ResponseObject.Raw = []byte(`"` + strings.Repeat("x", 5000) + `"`)
	want := process(t, r, 0, 40)
	r.ProcessEvents(large)
	want = append(append(want, "large"), process(t, r, 40, 50)...)
	got := a.await(t, 51)
	if diff := cmp.Diff(want, ids(got)); diff != "" {
		t.Error(diff)
	}
	for _, ev := range got {
		if truncated := ev.ResponseObject == nil; truncated != (ev.AuditID == "large") || truncated != (ev.Annotations[truncatedKey] == "true") {
			t.Errorf("%s: %v", ev.AuditID, ev.Annotations)
		}
	}
	eventually(t, "counted", func() bool { return status(t, r, "a").Truncated == 1 })
}

// DA-8: an event that is too large for the spool is kept without its bodies, and counted.
func TestTooLargeForTheSpool(t *testing.T) {
	a := newHTTPSink(t)
	r := startRouter(t, Config{AllowInsecure: true, SpoolBytes: 1 << 20})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "RequestResponse")}, nil)
	large := testEvent("large")
	large.ResponseObject.Raw = []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
	r.ProcessEvents(large)
	if got := a.await(t, 1)[0]; got.AuditID != "large" || got.ResponseObject != nil || got.Annotations[truncatedKey] != "true" {
		t.Errorf("%+v", got)
	}
	if s := status(t, r, "a"); s.Truncated != 1 || s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
}

// DA-11: a webhook that changes is used at once, even for the batch that its predecessor did not take.
func TestWebhookChanges(t *testing.T) {
	a, b := newHTTPSink(t), newHTTPSink(t)
	a.misbehave(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true })
	r := startRouter(t, Config{AllowInsecure: true, MinBackoff: time.Hour, MaxBackoff: time.Hour})
	sink := a.object("a", "Metadata")
	r.Update([]*v1alpha1.AuditSink{sink}, nil)
	want := process(t, r, 0, 5)
	eventually(t, "it fails", func() bool { return status(t, r, "a").LastError != "" })
	moved := b.object("a", "Metadata")
	r.Update([]*v1alpha1.AuditSink{moved}, nil)
	if diff := cmp.Diff(want, ids(b.await(t, 5))); diff != "" {
		t.Error(diff)
	}
	eventually(t, "it works", func() bool { s := status(t, r, "a"); return s.LastError == "" && s.Spooled == 0 })
	// Without a webhook the sink is inactive and keeps what waits.
	b.misbehave(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true })
	process(t, r, 5, 6)
	eventually(t, "it fails again", func() bool { return status(t, r, "a").LastError != "" })
	mute := moved.DeepCopy()
	mute.Spec.Webhook = nil
	r.Update([]*v1alpha1.AuditSink{mute}, nil)
	process(t, r, 6, 7)
	if s := status(t, r, "a"); s.Active || s.Reason != v1alpha1.ReasonNoWebhook || s.Spooled != 1 {
		t.Errorf("%+v", s)
	}
	b.misbehave(nil)
	r.Update([]*v1alpha1.AuditSink{moved}, nil)
	if diff := cmp.Diff(append(want, "id-5"), ids(b.await(t, 6))); diff != "" {
		t.Error(diff)
	}
}

// SV-10: each attempt is a span that names the sink and tells success from failure.
func TestSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	a := newHTTPSink(t)
	var attempts atomic.Int32
	a.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		if attempts.Add(1) == 1 {
			w.WriteHeader(500)
			return true
		}
		return false
	})
	r := startRouter(t, Config{AllowInsecure: true, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata")}, nil)
	process(t, r, 0, 1)
	a.await(t, 1)
	eventually(t, "two spans", func() bool { return len(spans.Ended()) == 2 })
	for i, want := range []codes.Code{codes.Error, codes.Unset} {
		s := spans.Ended()[i]
		if s.Name() != "audit.deliver" || s.Status().Code != want || !strings.Contains(fmt.Sprint(s.Attributes()), "sink") {
			t.Errorf("%s %v %v", s.Name(), s.Status(), s.Attributes())
		}
	}
}
