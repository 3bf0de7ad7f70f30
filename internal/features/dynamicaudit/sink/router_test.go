package sink

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
)

// DA-6: two sinks get the same request at their own levels, a third that is off gets nothing, and the event that the
// server goes on using is not changed.
func TestSinksAtDifferentLevels(t *testing.T) {
	a, b, c := newHTTPSink(t), newHTTPSink(t), newHTTPSink(t)
	r := startRouter(t, Config{AllowInsecure: true})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata"), b.object("b", "RequestResponse"), c.object("c", "None")}, nil)
	ev := testEvent("one")
	before := ev.DeepCopy()
	if !r.ProcessEvents(ev) {
		t.Fatal("refused")
	}
	if diff := cmp.Diff(before, ev); diff != "" {
		t.Error("the event was changed:", diff)
	}
	ev.AuditID, ev.RequestObject.Raw[2] = "reused", 'X' // as the server does
	for sink, level := range map[*httpSink]auditinternal.Level{a: auditinternal.LevelMetadata, b: auditinternal.LevelRequestResponse} {
		got := sink.await(t, 1)[0]
		if got.Annotations[identityKey] == "" {
			t.Errorf("%s: the event has no identity", level)
		}
		got.Annotations = nil
		want := before.DeepCopy()
		want.Level = level
		if level == auditinternal.LevelMetadata {
			want.RequestObject, want.ResponseObject = nil, nil
		}
		if diff := cmp.Diff(want, &got, cmp.Transformer("utc", func(m metav1.MicroTime) time.Time { return m.UTC() })); diff != "" {
			t.Errorf("%s: %s", level, diff)
		}
	}
	if n := len(c.received()); n != 0 {
		t.Errorf("a sink that is off got %d events", n)
	}
}

// DA-6: an event never shows more than it was made with, and sinks get no event of a stage that is not theirs (DA-1).
func TestEventsOfLowerLevelAndOtherStages(t *testing.T) {
	a := newHTTPSink(t)
	r := startRouter(t, Config{AllowInsecure: true})
	r.Update([]*v1alpha1.AuditSink{a.object("a", "RequestResponse")}, nil)
	low := testEvent("low")
	low.Level, low.RequestObject, low.ResponseObject = auditinternal.LevelMetadata, nil, nil
	received := testEvent("received")
	received.Stage = auditinternal.StageRequestReceived
	none := testEvent("none")
	none.Level = auditinternal.LevelNone
	started, panicked := testEvent("started"), testEvent("panicked")
	started.Stage, panicked.Stage = auditinternal.StageResponseStarted, auditinternal.StagePanic
	r.ProcessEvents(received, none, low, started, panicked)
	got := a.await(t, 3)
	if diff := cmp.Diff([]string{"low", "started", "panicked"}, ids(got)); diff != "" {
		t.Error(diff)
	}
	if got[0].Level != auditinternal.LevelMetadata || got[0].RequestObject != nil {
		t.Errorf("the first event has become more than it was: %+v", got[0])
	}
}

// DA-4: what Update says is in force when it returns: a class that appears, changes, and disappears.
func TestUpdateTakesEffect(t *testing.T) {
	a := newHTTPSink(t)
	r := startRouter(t, Config{AllowInsecure: true})
	sink := a.object("a", "None")
	sink.Spec.Policy.Rules = []v1alpha1.PolicyRule{{Level: "Metadata", WithAuditClass: "c"}}
	class := func(verb string) []*v1alpha1.AuditClass {
		return []*v1alpha1.AuditClass{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{{Verbs: []string{verb}}}}}}
	}
	sinks := []*v1alpha1.AuditSink{sink}
	r.Update(sinks, nil)
	r.ProcessEvents(testEvent("missing"))
	if s := status(t, r, "a"); s.Active || s.Reason != v1alpha1.ReasonClassesMissing || !slices.Equal(s.Missing, []string{"c"}) {
		t.Errorf("%+v", s)
	}
	r.Update(sinks, class("create"))
	r.ProcessEvents(testEvent("first"))
	r.Update(sinks, class("delete"))
	r.ProcessEvents(testEvent("other verb"))
	r.Update(sinks, class("create"))
	r.ProcessEvents(testEvent("second"))
	if s := status(t, r, "a"); !s.Active || s.Rules != 1 || s.Generation != 1 {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff([]string{"first", "second"}, ids(a.await(t, 2))); diff != "" {
		t.Error(diff)
	}
}

// DA-8: a deleted sink takes its spool with it, at once even if it hangs; the others keep theirs.
func TestDeletedSink(t *testing.T) {
	a, b := newHTTPSink(t), newHTTPSink(t)
	hang := make(chan struct{})
	defer close(hang)
	entered := make(chan struct{}, 10)
	a.misbehave(func(http.ResponseWriter, *http.Request) bool { entered <- struct{}{}; <-hang; return true })
	dir := quickDir(t)
	r := startRouter(t, Config{AllowInsecure: true, Dir: dir})
	keep := b.object("b", "Metadata")
	r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata"), keep}, nil)
	process(t, r, 0, 10)
	<-entered
	if !exists(filepath.Join(dir, "sink-uid-a")) {
		t.Fatal("no spool")
	}
	start := time.Now()
	r.Update([]*v1alpha1.AuditSink{keep}, nil)
	if took := time.Since(start); took > 25*time.Second { // a sink that hangs is given up after 30
		t.Errorf("deleting a sink that hangs took %v", took)
	}
	if exists(filepath.Join(dir, "sink-uid-a")) || !exists(filepath.Join(dir, "sink-uid-b")) {
		t.Error("the wrong spool is gone")
	}
	process(t, r, 10, 12)
	b.await(t, 12)
	if len(r.Status()) != 1 {
		t.Errorf("%+v", r.Status())
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// DA-8: shutdown delivers what it can, and keeps what a sink does not take; the next start delivers that.
func TestShutdown(t *testing.T) {
	good, bad := newHTTPSink(t), newHTTPSink(t)
	bad.misbehave(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true })
	dir := quickDir(t)
	sinks := []*v1alpha1.AuditSink{good.object("good", "Metadata"), bad.object("bad", "Metadata")}
	r := startRouter(t, Config{AllowInsecure: true, Dir: dir, FlushTimeout: patient})
	r.Update(sinks, nil)
	want := process(t, r, 0, 500)
	r.Shutdown()
	if diff := cmp.Diff(want, ids(good.received())); diff != "" {
		t.Error("not flushed:", diff)
	}
	r.Shutdown() // twice is harmless

	bad.misbehave(nil)
	again := startRouter(t, Config{AllowInsecure: true, Dir: dir})
	again.Update(sinks, nil)
	if diff := cmp.Diff(want, ids(bad.await(t, 500))); diff != "" {
		t.Error(diff)
	}
	if n := len(good.received()); n != 500 {
		t.Errorf("delivered %d events, 500 were sent: an orderly end must not repeat", n)
	}
	eventually(t, "counted", func() bool { return status(t, again, "bad").Delivered == 500 })
}

// DA-8: between a start and the first Update, events are kept by what was in force before; nothing is sent until then,
// and never to a sink that has been deleted meanwhile.
func TestRestartHasNoGap(t *testing.T) {
	a, b := newHTTPSink(t), newHTTPSink(t)
	dir := quickDir(t)
	sinkA, sinkB := a.object("a", "Metadata"), b.object("b", "None")
	sinkB.Spec.Policy.Rules = []v1alpha1.PolicyRule{{Level: "Request", WithAuditClass: "c"}}
	classes := []*v1alpha1.AuditClass{{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{{Verbs: []string{"create"}}}}}}
	r := startRouter(t, Config{AllowInsecure: true, Dir: dir})
	r.Update([]*v1alpha1.AuditSink{sinkA, sinkB}, classes)
	r.Shutdown()

	r = startRouter(t, Config{AllowInsecure: true, Dir: dir})
	if level := r.Evaluator().EvaluatePolicyRule(attributesOf(testEvent("x"))).Level; level != auditinternal.LevelRequest {
		t.Errorf("before the first update requests are audited at %s", level)
	}
	want := process(t, r, 0, 20)
	if s := status(t, r, "b"); s.Spooled != 20 || !s.Active {
		t.Errorf("not spooled: %+v", s)
	}
	time.Sleep(50 * time.Millisecond) // a chance to send too early
	if len(a.received())+len(b.received()) != 0 {
		t.Error("sent before it was known to whom")
	}
	r.Update([]*v1alpha1.AuditSink{sinkB}, classes)
	if diff := cmp.Diff(want, ids(b.await(t, 20))); diff != "" {
		t.Error(diff)
	}
	if len(a.received()) != 0 || exists(filepath.Join(dir, "sink-uid-a")) {
		t.Error("a sink that does not exist any more got events, or keeps its spool")
	}
}

// DA-8: the memory of the sinks is damaged, or the directory holds strangers: the server starts all the same.
func TestStartWithDamagedMemory(t *testing.T) {
	for _, text := range []string{"", "{", `{"sinks":[null]}`, `{"sinks":[{"spec":{"policy":{"level":"Loud"}}}],"classes":[null]}`, "[]"} {
		dir := quickDir(t)
		if err := os.WriteFile(filepath.Join(dir, memoryName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := newHTTPSink(t)
		r := startRouter(t, Config{AllowInsecure: true, Dir: dir})
		process(t, r, 0, 2)
		r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata")}, nil)
		process(t, r, 0, 2)
		a.await(t, 2)
	}
}

// DA-8: two servers must not share a spool; when the first is gone, the second may.
func TestDirectoryInUse(t *testing.T) {
	dir := quickDir(t)
	first := newRouter(t, Config{Dir: dir})
	done := make(chan error)
	go func() {
		second, err := New(Config{Dir: dir})
		if err == nil {
			second.Shutdown()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("a second server got the directory: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	first.Shutdown()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// DA-11, DA-8: a disk that is full costs events, which are counted and reported, but no request.
func TestFullDiskIsReported(t *testing.T) {
	a := newHTTPSink(t)
	disk := &fullDisk{room: 3000}
	r := startRouter(t, Config{AllowInsecure: true, createSegment: disk.create})
	a.misbehave(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true })
	r.Update([]*v1alpha1.AuditSink{a.object("a", "Metadata")}, nil)
	process(t, r, 0, 50)
	s := status(t, r, "a")
	if s.Drops.Disk == 0 || s.Dropped != s.Drops.Disk || s.Spooled+s.Dropped != 50 {
		t.Errorf("%+v", s)
	}
	disk.mu.Lock()
	disk.room = 1 << 20
	disk.mu.Unlock()
	a.misbehave(nil)
	process(t, r, 50, 60)
	a.await(t, int(60-s.Dropped))
	eventually(t, "no error any more", func() bool { return status(t, r, "a").LastError == "" && status(t, r, "a").Spooled == 0 })
	if got := status(t, r, "a"); got.Dropped != s.Dropped || got.Delivered != 60-s.Dropped {
		t.Errorf("%+v", got)
	}
}

// DA-11: a spool that cannot be opened makes its sink inactive, with the reason, and leaves the others alone.
func TestSpoolCannotBeOpened(t *testing.T) {
	dir := quickDir(t)
	if err := os.WriteFile(filepath.Join(dir, "sink-uid-a"), []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := newHTTPSink(t), newHTTPSink(t)
	r := startRouter(t, Config{AllowInsecure: true, Dir: dir})
	sinks := []*v1alpha1.AuditSink{a.object("a", "Metadata"), b.object("b", "Metadata")}
	r.Update(sinks, nil)
	if s := status(t, r, "a"); s.Active || s.Reason != v1alpha1.ReasonInvalid || !strings.Contains(s.Message, "spool cannot be opened") {
		t.Errorf("%+v", s)
	}
	process(t, r, 0, 1)
	b.await(t, 1)
	if err := os.Remove(filepath.Join(dir, "sink-uid-a")); err != nil {
		t.Fatal(err)
	}
	r.Update(sinks, nil)
	process(t, r, 1, 2)
	a.await(t, 1)
}

func TestSpoolNames(t *testing.T) {
	for uid, want := range map[string]string{"0f3a-B2": "sink-0f3a-B2", "../../etc": "", "": "", "a/b": "", strings.Repeat("x", 65): "", "ü": ""} {
		got := spoolName(types.UID(uid))
		if want != "" && got != want || want == "" && (len(got) != len("sink-00000000") || strings.ContainsAny(got, "/.")) {
			t.Errorf("%q: %q", uid, got)
		}
	}
}

func attributesOf(ev *auditinternal.Event) authorizer.Attributes {
	return auditrule.EventAttributes(ev)
}
