package sink

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// refuse has the sink answer with a code to whatever contains the text.
func (s *httpSink) refuse(code int, text string) {
	s.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Contains(body, []byte(text)) {
			w.WriteHeader(code)
			return true
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		return false
	})
}

func processBody(r *Router, id, body string) {
	ev := testEvent(id)
	ev.RequestObject = &runtime.Unknown{Raw: []byte(body), ContentType: runtime.ContentTypeJSON}
	r.ProcessEvents(ev)
}

// DA-8: no event blocks another. One that the sink refuses for good is found, sent without its bodies, and if that does
// not help set aside and counted. All others arrive, in order, bodies included.
func TestNoEventBlocksAnother(t *testing.T) {
	for _, code := range []int{400, 413, 422} {
		for _, where := range []string{"body", "event"} {
			t.Run(fmt.Sprint(code, where), func(t *testing.T) {
				t.Parallel()
				a := newHTTPSink(t)
				dir := quickDir(t)
				r := newRouter(t, Config{AllowInsecure: true, Dir: dir, MinBackoff: time.Hour, MaxBackoff: time.Hour})
				sink := a.object("a", "RequestResponse")
				sink.Spec.Webhook.Throttle = &v1alpha1.WebhookThrottleConfig{QPS: new(int64(1)), Burst: new(int64(10))} // finding one is no turn
				r.Update([]*v1alpha1.AuditSink{sink}, nil)
				a.refuse(code, "poison")
				want := process(t, r, 0, 700)
				if where == "body" {
					processBody(r, "odd", `{"poison":1}`)
					want = append(want, "odd")
				} else {
					r.ProcessEvents(testEvent("poison"))
				}
				want = append(want, process(t, r, 700, 1000)...)
				if err := r.Run(make(chan struct{})); err != nil {
					t.Fatal(err)
				}
				got := a.await(t, len(want))
				if diff := cmp.Diff(want, ids(got)); diff != "" {
					t.Error(diff)
				}
				for _, ev := range got {
					if (ev.RequestObject == nil) != (ev.AuditID == "odd") {
						t.Errorf("%s has the body %v", ev.AuditID, ev.RequestObject)
					}
				}
				eventually(t, "all is settled", func() bool { return status(t, r, "a").Spooled == 0 })
				s := status(t, r, "a")
				kept, err := os.ReadFile(filepath.Join(dir, spoolName(sink.UID), asideName))
				if where == "body" {
					if s.Truncated != 1 || s.Dropped != 0 || s.Delivered != 1001 || err == nil || got[700].Annotations[truncatedKey] == "" {
						t.Errorf("%+v; set aside %v", s, kept)
					}
					return
				}
				if s.Drops.SetAside != 1 || s.Dropped != 1 || s.Delivered != 1000 || s.Spooled != 0 || s.LastError != "" {
					t.Errorf("%+v", s)
				}
				if err != nil || strings.Count(string(kept), "\n") != 1 || !strings.Contains(string(kept), `"auditID":"poison"`) || !strings.Contains(string(kept), "requestObject") {
					t.Errorf("set aside is %s (%v)", kept, err)
				}
			})
		}
	}
}

// DA-8: a caller who sends nothing but such events does not hold up others, and the sink learns that there were some.
func TestManyRefusedEvents(t *testing.T) {
	a := newHTTPSink(t)
	dir := quickDir(t)
	r := newRouter(t, Config{AllowInsecure: true, Dir: dir, SpoolBytes: 1 << 20, MinBackoff: time.Hour, MaxBackoff: time.Hour})
	sink := a.object("a", "RequestResponse")
	r.Update([]*v1alpha1.AuditSink{sink}, nil)
	a.refuse(400, "poison")
	const n = 300
	for i := range n {
		processBody(r, fmt.Sprintf("poison-%d", i), `"`+strings.Repeat("x", 300)+`"`)
	}
	process(t, r, 0, 5)
	if err := r.Run(make(chan struct{})); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is settled", func() bool { return status(t, r, "a").Spooled == 0 })
	if s := status(t, r, "a"); s.Drops.SetAside != n || s.Delivered != 5 {
		t.Errorf("%+v", s)
	}
	notices := 0
	for _, ev := range a.received() {
		if strings.HasPrefix(string(ev.AuditID), incarnation) && ev.Annotations["audit.proviso.dev/notice"] != "" {
			notices++
		}
	}
	if notices != n {
		t.Errorf("%d notices, want one for each event", notices)
	}
	var size int64
	for _, name := range []string{asideName, asideOlder} {
		info, err := os.Stat(filepath.Join(dir, spoolName(sink.UID), name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size > 64<<10 {
		t.Errorf("%d bytes are set aside, want no more than a segment", size)
	}
}

// DA-8: a sink that refuses everything, because it is not what it should be, loses nothing: not the events are at
// fault. Everything else than 400, 413 and 422 is retried.
func TestSinkThatRefusesEverything(t *testing.T) {
	for _, code := range []int{400, 413, 422, 401, 403, 404, 405, 415, 431} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			a := newHTTPSink(t)
			var attempts atomic.Int32
			a.misbehave(func(w http.ResponseWriter, r *http.Request) bool {
				attempts.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(code)
				return true
			})
			r := startRouter(t, Config{AllowInsecure: true})
			r.Update([]*v1alpha1.AuditSink{a.object("a", "RequestResponse")}, nil)
			want := process(t, r, 0, 10)
			eventually(t, "many attempts", func() bool { return attempts.Load() > 30 })
			if s := status(t, r, "a"); s.Spooled != 10 || s.Dropped != 0 || !strings.Contains(s.LastError, fmt.Sprint(code)) {
				t.Errorf("%+v", s)
			}
			a.misbehave(nil)
			got := a.await(t, 10)
			if diff := cmp.Diff(want, ids(got)); diff != "" || got[0].RequestObject == nil {
				t.Error(diff)
			}
		})
	}
}

// DA-8: what an earlier version has spooled as it came does not stop the feed either, and neither does what the
// receiver alone finds too deep.
func TestOldSpoolWithRawBodies(t *testing.T) {
	a := newHTTPSink(t)
	r := newRouter(t, Config{AllowInsecure: true})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "RequestResponse")}, nil)
	deep := `{"level":"Request","auditID":"deep","stage":"ResponseComplete","requestObject":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + "}"
	r.routes.Load().statuses[0].receive(&encoded{text: []byte(deep), sum: checksum([]byte(deep))}, time.Now())
	want := process(t, r, 0, 3)
	if err := r.Run(make(chan struct{})); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is settled", func() bool { return status(t, r, "a").Spooled == 0 })
	got := ids(a.await(t, 3))
	if diff := cmp.Diff(want, got[len(got)-3:]); diff != "" || status(t, r, "a").Drops.SetAside != 1 {
		t.Errorf("%s %+v", diff, status(t, r, "a"))
	}
}
