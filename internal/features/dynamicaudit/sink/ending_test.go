package sink

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// setClock is a clock that tests set.
type setClock struct {
	mu    sync.Mutex
	now   time.Time
	known bool
}

func (c *setClock) Now() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.known
}

func (c *setClock) set(now time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.known = now, known
}

// DA-16: a sink gets events until its end and none from that instant on, and still gets what it had until then.
func TestSinkEnds(t *testing.T) {
	end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := &setClock{now: end.Add(-time.Nanosecond), known: true}
	a, b := newHTTPSink(t), newHTTPSink(t)
	r := startRouter(t, Config{AllowInsecure: true, Clock: clock})
	ending := a.object("ending", "Metadata")
	ending.Spec.NotAfter = &metav1.Time{Time: end}
	a.misbehave(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	r.Update([]*v1alpha1.AuditSink{ending, b.object("lasting", "Metadata")}, nil)
	// TM-13: whether it gets events until the end of a grant.
	for until, want := range map[time.Time]bool{end: true, end.Add(time.Second): false} {
		if err := r.Check("ending", until); (err == nil) != want {
			t.Errorf("until %v: %v", until, err)
		}
		if err := r.Check("lasting", until); err != nil {
			t.Errorf("one that does not end, until %v: %v", until, err)
		}
	}
	before := process(t, r, 0, 3)
	clock.set(end, true)
	process(t, r, 3, 6) // before anybody has noticed that it has ended
	eventually(t, "the sink ends", func() bool {
		s := status(t, r, "ending")
		return !s.Active && s.Reason == v1alpha1.ReasonEnded
	})
	if err := r.Check("ending", end); err == nil {
		t.Error("a sink that has ended can be told of requests")
	}
	process(t, r, 6, 9)
	a.misbehave(nil)
	if got := ids(a.await(t, 3)); !slices.Equal(got, before) {
		t.Errorf("it got %v", got)
	}
	b.await(t, 9)
	eventually(t, "nothing waits", func() bool { return status(t, r, "ending").Spooled == 0 })
	if n := len(a.received()); n != 3 {
		t.Errorf("it got %d events", n)
	}
	clock.set(end.Add(-time.Second), true) // the clock is set back a little, and is trusted
	eventually(t, "the sink goes on", func() bool { return status(t, r, "ending").Active })
}

// DA-16: while the clock is in doubt, events of a sink that ends wait; others are delivered.
func TestSinkThatEndsWaitsWhileTheClockIsInDoubt(t *testing.T) {
	end := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := &setClock{now: end.Add(-time.Hour)}
	a, b := newHTTPSink(t), newHTTPSink(t)
	r := startRouter(t, Config{AllowInsecure: true, Clock: clock})
	ending := a.object("ending", "Metadata")
	ending.Spec.NotAfter = &metav1.Time{Time: end}
	r.Update([]*v1alpha1.AuditSink{ending, b.object("lasting", "Metadata")}, nil)
	process(t, r, 0, 3)
	b.await(t, 3)
	if s := status(t, r, "ending"); !s.Active || s.Spooled != 3 || !strings.Contains(s.LastError, "clock") || len(a.received()) != 0 {
		t.Errorf("status %+v", s)
	}
	clock.set(end.Add(-time.Hour), true)
	a.await(t, 3)
	eventually(t, "the doubt is forgotten", func() bool { return status(t, r, "ending").LastError == "" })
}

// showing is a redactor that says what it was asked.
type showing struct{}

func (showing) Redact(ev *auditinternal.Event, v View) *auditinternal.Event {
	out := *ev
	if out.RequestObject != nil {
		text := "{\"reveal\":\"" + strings.Join(v.Reveal, ",") + "\"}"
		if v.Redact != nil {
			text = `{"redact":"` + v.Redact.Fields[0].Field.String() + `"}`
		}
		out.RequestObject = &runtime.Unknown{Raw: []byte(text)}
	}
	return &out
}

// DA-6, DA-16, HF-8: each sink gets its own view of an event, whose identity is the same everywhere.
func TestViewsOfSinks(t *testing.T) {
	r := startRouter(t, Config{AllowInsecure: true, Redactor: showing{}})
	sinks := map[string]*httpSink{}
	var objects []*v1alpha1.AuditSink
	for _, name := range []string{"plain", "twin", "revealing", "redacting", "omitting", "bare"} {
		sinks[name] = newHTTPSink(t)
		level := v1alpha1.LevelRequestResponse
		if name == "bare" {
			level = v1alpha1.LevelMetadata
		}
		objects = append(objects, sinks[name].object(name, level))
	}
	objects[2].Spec.Reveal = []string{"b", "a"}
	objects[3].Spec.Redact = &v1alpha1.Redaction{Fields: []v1alpha1.RedactedField{{Resources: []string{"secrets"}, Field: ".data"}}}
	objects[4].Spec.OmitManagedFields = true
	r.Update(objects, nil)
	ev := testEvent("one")
	const managed = `{"metadata":{"managedFields":[{"manager":"m"}],"name":"x"}}`
	ev.ResponseObject.Raw = []byte(managed)
	if !r.ProcessEvents(ev) {
		t.Fatal("refused")
	}
	identities := map[string]bool{}
	for name, want := range map[string][2]string{
		"plain": {`{"reveal":""}`, managed}, "twin": {`{"reveal":""}`, managed}, "revealing": {`{"reveal":"a,b"}`, managed},
		"redacting": {`{"redact":".data"}`, managed}, "omitting": {`{"reveal":""}`, `{"metadata":{"name":"x"}}`}, "bare": {},
	} {
		got := sinks[name].await(t, 1)[0]
		identities[got.Annotations[identityKey]] = true
		if have := [2]string{text(got.RequestObject), text(got.ResponseObject)}; have != want {
			t.Errorf("%s got %s", name, have)
		}
	}
	if len(identities) != 1 {
		t.Errorf("one event has the identities %v", identities)
	}
}

func text(o *runtime.Unknown) string {
	if o == nil {
		return ""
	}
	return string(o.Raw)
}

// DA-16: what cannot be read of a redaction is known not to be.
func TestRedactionThatCannotBeRead(t *testing.T) {
	for _, f := range []v1alpha1.RedactedField{{Resources: []string{"secrets"}, Field: "data"}, {Field: ".data"}, {Resources: []string{"Secrets"}, Field: ".data"}} {
		if got := redactionOf(&v1alpha1.Redaction{Fields: []v1alpha1.RedactedField{f}}); got == nil || !got.Invalid {
			t.Errorf("%+v: %+v", f, got)
		}
	}
	if got := redactionOf(&v1alpha1.Redaction{}); got != nil {
		t.Errorf("nothing: %+v", got)
	}
}
