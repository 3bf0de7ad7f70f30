package sidecar

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/component-base/metrics/testutil"
)

// events keeps what it is given.
type events struct{ all []*auditinternal.Event }

func (e *events) ProcessEvents(all ...*auditinternal.Event) bool {
	e.all = append(e.all, all...)
	return true
}

func (e *events) ids() (out []string) {
	for _, ev := range e.all {
		out = append(out, string(ev.AuditID))
	}
	return out
}

// tailOf is a log in a directory, and what a tail of it has delivered.
type tailOf struct {
	*testing.T
	dir  string
	got  events
	tail *logTail
}

func newTailOf(t *testing.T) *tailOf {
	o := &tailOf{T: t, dir: t.TempDir()}
	o.restart()
	return o
}

func (o *tailOf) restart() {
	o.Helper()
	tail, err := newLogTail(o.path("audit.log"), o.path("position"), &o.got)
	if err != nil {
		o.Fatal(err)
	}
	o.tail = tail
}

func (o *tailOf) path(name string) string { return filepath.Join(o.dir, name) }

func (o *tailOf) write(name, text string) {
	o.Helper()
	f, err := os.OpenFile(o.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		o.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		o.Fatal(err)
	}
}

func (o *tailOf) rename(to string) {
	o.Helper()
	if err := os.Rename(o.path("audit.log"), o.path(to)); err != nil {
		o.Fatal(err)
	}
}

func (o *tailOf) read(want ...string) {
	o.Helper()
	if err := o.tail.catchUp(o.Context()); err != nil {
		o.Fatal(err)
	}
	if got := o.got.ids(); !slices.Equal(got, want) {
		o.Fatalf("got %v, want %v", got, want)
	}
}

func lost(t *testing.T, cause string) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(lostTotal.WithLabelValues(cause))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// SC-19: files that begin alike, as callers can make them, are told apart. The tail read them again and again.
func TestFilesThatBeginAlike(t *testing.T) {
	o := newTailOf(t)
	same := line(1, 1000)
	o.write("audit.log", same+line(2, 0))
	o.read("0001", "0002")
	o.rename("audit-2026-01-01T00-00-00.000.log")
	o.write("audit.log", same+line(3, 0))
	want := []string{"0001", "0002", "0001", "0003"}
	o.read(want...)
	for i := range 3 {
		o.restart()
		o.read(want...)
		o.write("audit.log", line(4+i, 0))
		want = append(want, fmt.Sprintf("%04d", 4+i))
		o.read(want...)
	}
	o.rename("audit-2026-01-02T00-00-00.000.log")
	o.write("audit.log", same)
	o.restart()
	want = append(want, "0001")
	o.read(want...)
	// Even one that has all that was read of the log is another file, as long as the log is there.
	o.write("audit-2026-01-03T00-00-00.000.log", same+line(9, 0))
	o.write("audit.log", line(8, 0))
	o.restart()
	o.read(append(want, "0001", "0009", "0008")...)
}

// SC-19: logs that are rotated by copying and truncating go on in the copy, and files that are removed after they were
// read are no loss. Those that were not are counted.
func TestRotationByCopyAndLosses(t *testing.T) {
	o := newTailOf(t)
	gone := lost(t, causeGone)
	o.write("audit.log", line(1, 0)+line(2, 0))
	o.read("0001", "0002")
	o.write("audit.log", line(3, 0))
	text, err := os.ReadFile(o.path("audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	o.write("audit-2026-01-01T00-00-00.000.log", string(text))
	if err := os.Truncate(o.path("audit.log"), 0); err != nil {
		t.Fatal(err)
	}
	o.write("audit.log", line(4, 0))
	o.restart()
	o.read("0001", "0002", "0003", "0004")
	if err := os.Remove(o.path("audit-2026-01-01T00-00-00.000.log")); err != nil {
		t.Fatal(err)
	}
	o.write("audit.log", line(5, 0))
	o.restart()
	o.read("0001", "0002", "0003", "0004", "0005")
	if n := lost(t, causeGone) - gone; n != 0 {
		t.Errorf("%v are lost", n)
	}
	// The log is replaced before it was rotated: something may have been in it.
	o.write("other", line(6, 0))
	if err := os.Rename(o.path("other"), o.path("audit.log")); err != nil {
		t.Fatal(err)
	}
	o.read("0001", "0002", "0003", "0004", "0005", "0006")
	if n := lost(t, causeGone) - gone; n != 1 {
		t.Errorf("%v are lost, want 1", n)
	}
}

// SC-19: a line beyond the limit is delivered without its bodies, and marked. What is no event is counted.
func TestLongLinesAreCut(t *testing.T) {
	o := newTailOf(t)
	cut, none := lost(t, causeCut), lost(t, causeNoEvent)
	o.tail.maxLine = 4 << 10
	head := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"0002","stage":"ResponseComplete","requestURI":"/api","verb":"create","user":{"username":"eve"}`
	o.write("audit.log", line(1, 0)+head+`,"requestObject":{"a":"b"},"responseObject":{"pad":"`+strings.Repeat("x", 100<<10)+`"},"stageTimestamp":"2026-01-01T00:00:00.000000Z"}`+"\n"+
		line(3, 0)+strings.Repeat("y", 100<<10)+"\n"+line(4, 0))
	o.read("0001", "0002", "0003", "0004")
	e := o.got.all[1]
	if e.Annotations[truncatedKey] != truncatedValue || e.User.Username != "eve" || e.Verb != "create" || e.RequestObject != nil || e.ResponseObject != nil || e.StageTimestamp.IsZero() {
		t.Errorf("%+v", e)
	}
	if o.got.all[0].Annotations[truncatedKey] != "" {
		t.Error("one that is whole is marked")
	}
	if lost(t, causeCut)-cut != 1 || lost(t, causeNoEvent)-none != 1 {
		t.Errorf("%v cut, %v no events", lost(t, causeCut)-cut, lost(t, causeNoEvent)-none)
	}
	o.restart()
	o.read("0001", "0002", "0003", "0004")
}

// SC-19: a position that an earlier release has kept still holds.
func TestPositionOfAnEarlierRelease(t *testing.T) {
	o := newTailOf(t)
	o.write("audit-2026-01-01T00-00-00.000.log", line(1, 0))
	o.write("audit.log", line(2, 0)+line(3, 0))
	kept, err := json.Marshal(map[string]any{"head": line(2, 0)[:100], "offset": len(line(2, 0))})
	if err != nil {
		t.Fatal(err)
	}
	o.write("position", string(kept))
	o.restart()
	o.read("0003")
	o.write("audit.log", line(4, 0))
	o.restart()
	o.read("0003", "0004")
}

// SC-19: init lets the API server truncate events, and they fit into what the sidecar takes.
func TestInitTruncatesEvents(t *testing.T) {
	for mode, prefix := range map[string]string{auditByLog: "audit-log-", auditByHook: "audit-webhook-"} {
		got := map[string]string{}
		for _, f := range (&settings{Audit: mode}).flags("/etc/proviso") {
			got[f.Name] = f.Value
		}
		if got[prefix+"truncate-enabled"] != "true" || got[prefix+"truncate-max-event-size"] != fmt.Sprint(maxEventBytes) || got[prefix+"truncate-max-batch-size"] == "" || maxLine < maxEventBytes {
			t.Errorf("%s: %v", mode, got)
		}
	}
}
