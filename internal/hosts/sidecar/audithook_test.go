package sidecar

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// full takes events until it is full.
type full struct {
	audit.Backend
	left int
	got  []*auditinternal.Event
}

func (f *full) ProcessEvents(events ...*auditinternal.Event) bool {
	if f.left -= len(events); f.left < 0 {
		return false
	}
	f.got = append(f.got, events...)
	return true
}

// SC-10: a batch of the audit webhook is answered after it was spooled. Before the sinks run, and while the spool is
// full, the API server is told to come again; what is no batch is refused.
func TestEventsOfTheWebhook(t *testing.T) {
	const batch = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{"auditID":"a","level":"Metadata"},{"auditID":"b","level":"Metadata"}]}`
	s := &sidecar{settings: &settings{Audit: auditByHook}}
	send := func(body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.hookedEvents(w, httptest.NewRequest(http.MethodPost, auditPath, strings.NewReader(body)))
		return w
	}
	if w := send(batch); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("before the sinks run: %d", w.Code)
	}
	sinks := &full{left: 3}
	var backend audit.Backend = sinks
	s.sinks.Store(&backend)
	if w := send(batch); w.Code != http.StatusOK || len(sinks.got) != 2 || sinks.got[1].AuditID != "b" {
		t.Errorf("%d, %d events", w.Code, len(sinks.got))
	}
	if w := send(batch); w.Code != http.StatusServiceUnavailable || len(sinks.got) != 2 {
		t.Errorf("with a full spool: %d", w.Code)
	}
	for _, bad := range []string{"", "{", `{"kind":"Pod","apiVersion":"v1"}`} {
		if w := send(bad); w.Code != http.StatusBadRequest {
			t.Errorf("%q: %d", bad, w.Code)
		}
	}
	s.settings.Audit = auditByLog
	if w := send(batch); w.Code != http.StatusNotFound {
		t.Errorf("beside a log: %d", w.Code)
	}
}
