package sink

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	"k8s.io/apiserver/plugin/pkg/audit/webhook"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// countingSink counts events without decoding them, so that it costs both sides little and the same.
type countingSink struct {
	*httptest.Server
	events atomic.Int64
}

func newCountingSink(b *testing.B) *countingSink {
	s := &countingSink{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			s.events.Add(int64(bytes.Count(body, []byte(`"auditID"`))))
		}
	}))
	b.Cleanup(s.Close)
	return s
}

func (s *countingSink) await(n int64) bool {
	for deadline := time.Now().Add(2 * time.Minute); s.events.Load() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// BenchmarkDelivery measures events per second from ProcessEvents to the acknowledgement of a local HTTPS sink: ours,
// which is on disk in between, and upstream's webhook behind its buffer, which is not and drops when its buffer is
// full.
func BenchmarkDelivery(b *testing.B) {
	const n = 20000
	for _, level := range []v1alpha1.Level{"Metadata", "RequestResponse"} {
		ev := testEvent("0f3a7c5e-0000-4000-8000-000000000000")
		ev.Level = auditinternal.Level(level)
		if level == "Metadata" {
			ev.RequestObject, ev.ResponseObject = nil, nil
		}
		b.Run(fmt.Sprintf("%s/spooled", level), func(b *testing.B) {
			sink := newCountingSink(b)
			r := startRouter(b, Config{AllowInsecure: true, Dir: b.TempDir()})
			r.Update([]*v1alpha1.AuditSink{sinkAt("a", level, sink.URL, (&httpSink{Server: sink.Server}).caBundle())}, nil)
			measure(b, sink, n, func() { r.ProcessEvents(ev) })
			if s := r.Status()[0]; s.Dropped > 0 {
				b.Fatalf("%+v", s)
			}
		})
		b.Run(fmt.Sprintf("%s/upstream", level), func(b *testing.B) {
			sink := newCountingSink(b)
			kubeconfig := filepath.Join(b.TempDir(), "kubeconfig")
			text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n",
				sink.URL, base64.StdEncoding.EncodeToString((&httpSink{Server: sink.Server}).caBundle()))
			if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
			hook, err := webhook.NewBackend(kubeconfig, auditv1.SchemeGroupVersion, wait.Backoff{Duration: time.Second, Factor: 1, Steps: 3}, nil)
			if err != nil {
				b.Fatal(err)
			}
			backend := buffered.NewBackend(hook, buffered.BatchConfig{BufferSize: 10000, MaxBatchSize: 400, MaxBatchWait: 10 * time.Millisecond, AsyncDelegate: true})
			stop := make(chan struct{})
			if err := backend.Run(stop); err != nil {
				b.Fatal(err)
			}
			sent := int64(0)
			measure(b, sink, n, func() {
				for sent-sink.events.Load() > 9000 { // its buffer would drop
					time.Sleep(100 * time.Microsecond)
				}
				sent++
				backend.ProcessEvents(ev)
			})
			close(stop)
			backend.Shutdown()
		})
	}
}

func measure(b *testing.B, sink *countingSink, n int64, send func()) {
	b.Helper()
	start, cpu := time.Now(), cpuTime(b)
	total := int64(0)
	for b.Loop() {
		for range n {
			send()
		}
		if total += n; !sink.await(total) {
			b.Fatalf("%d of %d events arrived", sink.events.Load(), total)
		}
	}
	b.ReportMetric(float64(total)/time.Since(start).Seconds(), "events/s")
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(total), "cpu-ns/event")
}

// cpuTime is what the process, sender and sink, has used: a busy machine disturbs it less than the time.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkProcess measures what a request pays: one event to a number of sinks at two levels, none of which answers.
func BenchmarkProcess(b *testing.B) {
	dead := newCountingSink(b)
	dead.Close()
	for _, sinks := range []int{0, 1, 4, 32} {
		b.Run(fmt.Sprintf("sinks=%d", sinks), func(b *testing.B) {
			r := startRouter(b, Config{AllowInsecure: true, Dir: b.TempDir(), SpoolBytes: 64 << 20, MinBackoff: time.Minute, MaxBackoff: time.Minute, FlushTimeout: time.Millisecond})
			var objects []*v1alpha1.AuditSink
			for i := range sinks {
				objects = append(objects, sinkAt(fmt.Sprint(i), []v1alpha1.Level{"Metadata", "RequestResponse"}[i%2], dead.URL, nil))
			}
			r.Update(objects, nil)
			ev := testEvent("x")
			b.ReportAllocs()
			for b.Loop() {
				r.ProcessEvents(ev)
			}
		})
	}
}
