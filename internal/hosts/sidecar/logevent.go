package sidecar

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Why something of the audit log does not reach the sinks, or not whole.
const (
	// causeGone: a file was removed or truncated before it was read to its end, as far as is known.
	causeGone = "gone"
	// causeNoEvent: a line is not an event.
	causeNoEvent = "no_event"
	// causeCut: an event was too long. It was delivered without what comes behind its bodies, and without these.
	causeCut = "cut"
)

var (
	lostTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "proviso", Subsystem: "sidecar", Name: "audit_log_lost_total", StabilityLevel: metrics.ALPHA,
		Help: "What of the audit log of the API server did not reach the audit sinks, or not whole, by cause: files that are gone, lines that are not events, events that were cut.",
	}, []string{"cause"})

	tailMetrics sync.Once
)

func registerTailMetrics() {
	tailMetrics.Do(func() { legacyregistry.MustRegister(lostTotal) })
}

// eventDecoder reads events as API servers write them.
var eventDecoder = audit.Codecs.UniversalDecoder(auditinternal.SchemeGroupVersion)

var errNoEvent = errors.New("want an Event of audit.k8s.io")

// What upstream's truncating backend marks events with.
const truncatedKey, truncatedValue = "audit.k8s.io/truncated", "true"

// decodeEvent reads a line of the log, or the beginning of one.
func decodeEvent(line []byte, cut bool) (*auditinternal.Event, error) {
	if cut {
		line = wholeFields(line)
	}
	decoded, _, err := eventDecoder.Decode(line, nil, nil)
	if err != nil {
		return nil, err
	}
	event, ok := decoded.(*auditinternal.Event)
	if !ok || cut && event.AuditID == "" {
		return nil, errNoEvent
	}
	if !cut {
		return event, nil
	}
	if event.Annotations == nil {
		event.Annotations = map[string]string{}
	}
	event.Annotations[truncatedKey] = truncatedValue
	// The API server writes the times behind the bodies. It has just written the line.
	for _, at := range []*metav1.MicroTime{&event.RequestReceivedTimestamp, &event.StageTimestamp} {
		if at.IsZero() {
			*at = metav1.NewMicroTime(time.Now())
		}
	}
	return event, nil
}

// wholeFields is an object with the fields that are whole in the beginning of its text, except for the bodies.
func wholeFields(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		key, ok := name.(string)
		if err != nil || !ok {
			break
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			break
		}
		if key != "requestObject" && key != "responseObject" {
			fields[key] = value
		}
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return out
}
