package dynamicaudit

import (
	"slices"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/state/policycodec"
)

// inForce returns the sinks and classes as they take effect. It is not known what a quarantined class selects, nor what
// a quarantined sink wants to record. Such a sink, and one that uses such a class, must not record less: its rules for
// that class are left out, and every request is recorded with at least its metadata. Bodies are recorded only where a
// readable rule says so: doubt does not justify sending a secret somewhere. A quarantined sink gets no bodies, since
// the part that is not understood may say what to leave out of them.
func inForce(sinks []*auditv1alpha1.AuditSink, classes []*auditv1alpha1.AuditClass) ([]*auditv1alpha1.AuditSink, []*auditv1alpha1.AuditClass) {
	doubtful := map[string]bool{}
	for _, c := range classes {
		if policycodec.Quarantined(c) != "" {
			doubtful[c.Name] = true
		}
	}
	out := slices.Clone(sinks)
	for i, s := range out {
		uses := func(r auditv1alpha1.PolicyRule) bool { return doubtful[r.WithAuditClass] }
		if policycodec.Quarantined(s) == "" && !slices.ContainsFunc(s.Spec.Policy.Rules, uses) {
			continue
		}
		level := atLeastMetadata
		if policycodec.Quarantined(s) != "" {
			level = justMetadata
		}
		s = s.DeepCopy()
		policy := &s.Spec.Policy
		policy.Level = level(policy.Level)
		policy.Rules = slices.DeleteFunc(policy.Rules, uses)
		for j := range policy.Rules {
			policy.Rules[j].Level = level(policy.Rules[j].Level)
		}
		out[i] = s
	}
	return out, slices.DeleteFunc(slices.Clone(classes), func(c *auditv1alpha1.AuditClass) bool { return doubtful[c.Name] })
}

func justMetadata(auditv1alpha1.Level) auditv1alpha1.Level { return auditv1alpha1.LevelMetadata }

func atLeastMetadata(level auditv1alpha1.Level) auditv1alpha1.Level {
	if level == "" || level == auditv1alpha1.LevelNone {
		return auditv1alpha1.LevelMetadata
	}
	return level
}
