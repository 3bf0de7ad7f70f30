package validate

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// DA-17: the policy of a sink has a bounded number of rules, that of a namespace's sink fewer.
func TestRulesOfSinksAreBounded(t *testing.T) {
	rules := func(n int) audit.Policy {
		p := audit.Policy{Level: audit.LevelNone}
		for range n {
			p.Rules = append(p.Rules, audit.PolicyRule{Level: audit.LevelMetadata, WithAuditClass: "c"})
		}
		return p
	}
	meta := metav1.ObjectMeta{Name: "s", Namespace: "team"}
	for n, want := range map[int]bool{maxLocalPolicyRules: true, maxLocalPolicyRules + 1: false} {
		errs := NamespaceAuditSink(&policy.NamespaceAuditSink{ObjectMeta: meta, Spec: policy.NamespaceAuditSinkSpec{Policy: rules(n), ServiceAccountName: "a"}}, false, nil)
		if (len(errs) == 0) != want || !want && !strings.HasPrefix(errs[0].Error(), "spec.policy.rules: Too many") {
			t.Errorf("%d rules of a namespace: %v", n, errs)
		}
	}
	for n, want := range map[int]bool{maxPolicyRules: true, maxPolicyRules + 1: false} {
		errs := AuditSink(&audit.AuditSink{ObjectMeta: meta, Spec: audit.AuditSinkSpec{Policy: rules(n)}}, false)
		if (len(errs) == 0) != want || !want && !strings.HasPrefix(errs[0].Error(), "spec.policy.rules: Too many") {
			t.Errorf("%d rules: %v", n, errs)
		}
	}
}
