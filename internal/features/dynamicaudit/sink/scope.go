package sink

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
)

// Scope is the scope of a sink that belongs to a namespace (DA-17).
type Scope struct {
	// Namespace is the one whose events it gets, and Account the service account that may see what it gets. UID is that
	// of the account.
	Namespace, Account, UID string
	// Gone is true if the account does not exist now.
	Gone bool
}

// Cutter cuts events to what the account of a sink may see.
type Cutter interface {
	// Cut returns what may be seen of an event that was recorded at a level, at which level, and the permissions whose
	// hidden fields are shown; nil if nothing of it may be seen. It does not change the event.
	Cut(*auditinternal.Event, Scope, auditrule.Level) (*auditinternal.Event, auditrule.Level, []string)
}

// Object is a sink as the router takes it.
type Object struct {
	*v1alpha1.AuditSink
	// Scope is nil for one of the cluster.
	Scope *Scope
}

// Whole are sinks of the cluster.
func Whole(sinks []*v1alpha1.AuditSink) (all []Object) {
	for _, s := range sinks {
		all = append(all, Object{AuditSink: s})
	}
	return all
}

// spoolPart is how much smaller the spool of a sink is that belongs to a namespace.
const spoolPart = 8

// goneText is why a sink without its account is not active.
const goneText = "spec.serviceAccountName: there is no such service account, or another one than when the spec was written: create it, and write the spec of the sink again"

// scoped are the scopes of sinks, by their key.
func scoped(objects []Object) (sinks []*v1alpha1.AuditSink, scopes map[types.UID]*Scope) {
	for _, o := range objects {
		sinks = append(sinks, o.AuditSink)
		if o.Scope != nil {
			if scopes == nil {
				scopes = map[types.UID]*Scope{}
			}
			scopes[key(o.AuditSink)] = o.Scope
		}
	}
	return sinks, scopes
}

// cut returns an event as a sink of a namespace gets it, without its bodies if it is larger than limit; nil if the sink
// does not get it.
func (r *Router) cut(w *work, view View, scope *Scope, ev *auditinternal.Event, level auditrule.Level, limit int) *encoded {
	if r.cfg.Cutter == nil {
		return nil
	}
	shown, level, reveal := r.cfg.Cutter.Cut(ev, *scope, level)
	if shown == nil || level == auditrule.None {
		return nil
	}
	if level < auditrule.Request && (shown.RequestObject != nil || shown.ResponseObject != nil) {
		bare := *shown
		bare.RequestObject, bare.ResponseObject = nil, nil
		shown = &bare
	}
	view.Reveal = slices.Sorted(slices.Values(reveal))
	e := &encoder{}
	e.reset(r.seen(shown, view), w.id)
	return e.at(level, limit)
}
