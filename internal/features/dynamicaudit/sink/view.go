package sink

import (
	"reflect"
	"slices"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// View is what a sink gets to see of the bodies of events. The zero value is that of a subscription.
type View struct {
	// Reveal are the permissions whose hidden fields are shown, in order.
	Reveal []string
	// Redact are the fields whose values are not shown; nil if there are none.
	Redact *Redaction
	// OmitManagedFields leaves the managed fields out.
	OmitManagedFields bool
}

// Redaction are fields whose values are not shown.
type Redaction struct {
	// Permissions are field permissions by name.
	Permissions []string
	Fields      []RedactedField
	// Invalid says that some of it cannot be read: nobody knows what is not to be shown.
	Invalid bool
}

// RedactedField is a field of some resources.
type RedactedField struct {
	Resources []fieldperm.Resource
	Field     fieldperm.Path
}

// redactionOf reads what was stored, whatever validation has accepted: it can be older than a rule.
func redactionOf(r *v1alpha1.Redaction) *Redaction {
	if r == nil || len(r.Permissions)+len(r.Fields) == 0 {
		return nil
	}
	out := &Redaction{Permissions: slices.Sorted(slices.Values(r.Permissions))}
	for _, f := range r.Fields {
		at, err := fieldperm.ParsePath(f.Field)
		field := RedactedField{Field: at}
		out.Invalid = out.Invalid || err != nil || len(f.Resources) == 0
		for _, name := range f.Resources {
			resource, err := fieldperm.ParseResource(name)
			field.Resources = append(field.Resources, resource)
			out.Invalid = out.Invalid || err != nil
		}
		out.Fields = append(out.Fields, field)
	}
	if out.Invalid {
		out.Fields = nil
	}
	return out
}

func viewOf(s *v1alpha1.AuditSink) View {
	return View{Reveal: slices.Sorted(slices.Values(s.Spec.Reveal)), Redact: redactionOf(s.Spec.Redact), OmitManagedFields: s.Spec.OmitManagedFields}
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

// encoder is the encoder of a view for this event, whose identity is the same in all of them. Bodies that a level does
// not have are not looked at.
func (w *work) encoder(r *Router, view View, number int, ev *auditinternal.Event, level auditrule.Level) *encoder {
	number *= 2
	if level >= auditrule.Request {
		number++
	}
	for len(w.encoders) <= number {
		w.encoders = append(w.encoders, encoder{})
	}
	e := &w.encoders[number]
	if e.event == nil {
		if level < auditrule.Request && (ev.RequestObject != nil || ev.ResponseObject != nil) {
			bare := *ev
			bare.RequestObject, bare.ResponseObject = nil, nil
			ev = &bare
		}
		e.reset(r.seen(ev, view), w.id)
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
