package dynamicaudit

import (
	"fmt"
	"testing"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// PO-25: a sink that is not understood, or that uses a class that is not understood, records every request at least
// with its metadata; the first gets no bodies, the other none beyond what it says. A sink beside it stays as it is.
func TestDoubtRecordsNoLess(t *testing.T) {
	quarantined := map[string]string{policyv1alpha1.AnnotationQuarantined: "from the future"}
	class := func(name string, annotations map[string]string) *auditv1alpha1.AuditClass {
		c := &auditv1alpha1.AuditClass{}
		c.Name, c.Annotations = name, annotations
		return c
	}
	classes := []*auditv1alpha1.AuditClass{class("known", nil), class("doubtful", quarantined)}
	rule := func(level auditv1alpha1.Level, class string) auditv1alpha1.PolicyRule {
		return auditv1alpha1.PolicyRule{Level: level, WithAuditClass: class}
	}
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		policy      auditv1alpha1.Policy
		want        string
	}{
		{"understood", nil, auditv1alpha1.Policy{Level: "None", Rules: []auditv1alpha1.PolicyRule{rule("None", "known")}}, "None [{None known}]"},
		{"a doubtful class", nil, auditv1alpha1.Policy{Level: "None", Rules: []auditv1alpha1.PolicyRule{rule("Request", "doubtful"), rule("None", "known")}}, "Metadata [{Metadata known}]"},
		{"a doubtful class that takes out", nil, auditv1alpha1.Policy{Level: "Request", Rules: []auditv1alpha1.PolicyRule{rule("None", "doubtful"), rule("RequestResponse", "known")}}, "Request [{RequestResponse known}]"},
		{"a doubtful sink", quarantined, auditv1alpha1.Policy{}, "Metadata []"},
		{"a doubtful sink with rules", quarantined, auditv1alpha1.Policy{Level: "Request", Rules: []auditv1alpha1.PolicyRule{rule("None", "known")}}, "Metadata [{Metadata known}]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sink := &auditv1alpha1.AuditSink{Spec: auditv1alpha1.AuditSinkSpec{Policy: *tc.policy.DeepCopy()}}
			sink.Annotations = tc.annotations
			sinks, left := inForce([]*auditv1alpha1.AuditSink{sink}, classes)
			if got := fmt.Sprint(sinks[0].Spec.Policy.Level, " ", sinks[0].Spec.Policy.Rules); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if len(left) != 1 || left[0].Name != "known" || len(classes) != 2 {
				t.Errorf("classes %v", left)
			}
			if fmt.Sprint(sink.Spec.Policy) != fmt.Sprint(tc.policy) {
				t.Errorf("the object of the informer was changed: %v", sink.Spec.Policy)
			}
		})
	}
}
