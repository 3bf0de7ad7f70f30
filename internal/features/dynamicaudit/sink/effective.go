package sink

import (
	"slices"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
)

// Effective shows the compiled policies of the sinks that are in force, or of the one with a name.
func (r *Router) Effective(name string) []auditrule.Effective {
	r.mu.Lock()
	sinks, classes, states := slices.Clone(r.current.sinks), r.current.classes, r.routes.Load().index.Sinks()
	r.mu.Unlock()
	out := []auditrule.Effective{}
	for i, s := range sinks {
		if name == "" || s.Name == name {
			out = append(out, effectiveOf(s, classes, states[i]))
		}
	}
	return out
}

func effectiveOf(s *v1alpha1.AuditSink, classes []*v1alpha1.AuditClass, state auditrule.Sink) auditrule.Effective {
	e := auditrule.Effective{Sink: s.Name, Generation: s.Generation, Active: state.Active, Reason: state.Reason, Message: state.Message}
	policy, from, err := auditrule.ToPolicyFrom(&s.Spec.Policy, classes)
	if err != nil {
		e.Problem = err.Error()
		return e
	}
	policy.OmitManagedFields = s.Spec.OmitManagedFields
	e.Policy, e.From = policy, from
	return e
}
