package sidecar

import (
	"io"
	"net/http"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/klog/v2"
)

// maxEvents bounds a batch of the API server's audit webhook: some hundred events with their bodies.
const maxEvents = 128 << 20

// hookedEvents takes a batch of the API server's audit webhook (SC-10). It answers after the batch is spooled; what the
// API server holds itself is lost with it.
func (s *sidecar) hookedEvents(w http.ResponseWriter, r *http.Request) {
	if s.settings.Audit != auditByHook {
		http.Error(w, "this sidecar reads the audit log: `proviso sidecar init --audit=webhook` lets it take events here", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvents))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	decoded, _, err := eventDecoder.Decode(body, nil, nil)
	list, ok := decoded.(*auditinternal.EventList)
	if err != nil || !ok {
		klog.InfoS("The audit webhook sent something that is not a list of events", "err", err)
		http.Error(w, "want an EventList of audit.k8s.io", http.StatusBadRequest)
		return
	}
	sinks := s.sinks.Load()
	events := make([]*auditinternal.Event, len(list.Items))
	for i := range list.Items {
		events[i] = &list.Items[i]
	}
	if sinks == nil || !(*sinks).ProcessEvents(events...) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the spool of the audit sinks does not take events now", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}
