package sink

import (
	"reflect"
	"slices"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// View is what a sink gets to see of the bodies of events. The zero value is that of a subscription.
type View struct {
	// Reveal are the permissions whose hidden fields are shown, in order.
	Reveal []string
	// Redact are the fields whose values are not shown; nil if there are none.
	Redact *v1alpha1.Redaction
	// OmitManagedFields leaves the managed fields out.
	OmitManagedFields bool
}

func viewOf(s *v1alpha1.AuditSink) View {
	v := View{Reveal: slices.Sorted(slices.Values(s.Spec.Reveal)), OmitManagedFields: s.Spec.OmitManagedFields}
	if r := s.Spec.Redact; r != nil && len(r.Permissions)+len(r.Fields) > 0 {
		v.Redact = r
	}
	return v
}

// viewNumber is the place of a view among those of all receivers, each of which is kept once.
func (r *routes) viewNumber(v View) int {
	at := slices.IndexFunc(r.views, func(known View) bool { return reflect.DeepEqual(known, v) })
	if at < 0 {
		at = len(r.views)
		r.views = append(r.views, v)
	}
	return at
}

// seen is an event as a view shows it. The event itself is not changed.
func (r *Router) seen(ev *auditinternal.Event, v View) *auditinternal.Event {
	if v.OmitManagedFields {
		ev = withoutManagedFieldsOf(ev)
	}
	if r.cfg.Redactor != nil {
		ev = r.cfg.Redactor.Redact(ev, v)
	}
	return ev
}

// encoder is the encoder of a view for this event, whose identity is the same in all of them.
func (w *work) encoder(r *Router, routes *routes, ev *auditinternal.Event, view int) *encoder {
	for len(w.encoders) <= view {
		w.encoders = append(w.encoders, encoder{})
	}
	e := &w.encoders[view]
	if e.event == nil {
		e.reset(r.seen(ev, routes.views[view]), w.id)
	}
	return e
}

// release forgets the event, which the server reuses.
func (w *work) release() {
	for i := range w.encoders {
		w.encoders[i].event = nil
	}
	workPool.Put(w)
}
