package sink

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
)

// everything is the right to see all of an event.
type everything struct{}

func (everything) Cut(ev *auditinternal.Event, _ Scope, level auditrule.Level) (*auditinternal.Event, auditrule.Level, []string) {
	return ev, level, nil
}

// DA-8, DA-17: the spool of a namespace's sink is smaller. An event that does not fit into it loses its bodies, as one
// that is too large for any sink does, and is not lost: otherwise a writer hides a write by padding it.
func TestLargeEventsOfNamespaces(t *testing.T) {
	receiver := newHTTPSink(t)
	allow, err := ParseAllow([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	r := startRouter(t, Config{Cutter: everything{}, Allow: allow, AllowInsecure: true})
	mine := receiver.object("ns/mine", v1alpha1.LevelRequestResponse)
	r.UpdateAll([]Object{{AuditSink: mine, Scope: &Scope{Namespace: "ns", Account: "auditor", UID: "1"}}}, nil)
	for id, size := range map[string]int{"small": 1 << 10, "large": 3 << 20, "huge": 9 << 20} {
		ev := testEvent(id)
		ev.RequestObject = &runtime.Unknown{Raw: []byte(`{"pad":"` + strings.Repeat("x", size) + `"}`), ContentType: runtime.ContentTypeJSON}
		r.ProcessEvents(ev)
	}
	for _, ev := range receiver.await(t, 3) {
		whole := ev.AuditID == "small"
		if got := ev.RequestObject != nil; got != whole {
			t.Errorf("%s: has its body: %v, want %v", ev.AuditID, got, whole)
		}
		if got := ev.Annotations[truncatedKey] == truncatedValue; got == whole {
			t.Errorf("%s: is marked as truncated: %v, want %v", ev.AuditID, got, !whole)
		}
	}
	if s := status(t, r, "ns/mine"); s.Dropped != 0 || s.Truncated != 2 {
		t.Errorf("%d dropped, %d truncated, want 0 and 2", s.Dropped, s.Truncated)
	}
}
