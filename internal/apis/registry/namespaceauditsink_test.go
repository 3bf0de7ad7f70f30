package registry

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// DA-17, SC-9: where there are no sinks of namespaces, creating one says so; one that is there can still be changed.
func TestWhereNoNamespaceHasSinks(t *testing.T) {
	kind := namespaceAuditSinkKind(Config{})
	sink := &policy.NamespaceAuditSink{ObjectMeta: metav1.ObjectMeta{Name: "ours", Namespace: "team"},
		Spec: policy.NamespaceAuditSinkSpec{ServiceAccountName: "default", ServiceAccountUID: "1", Policy: auditv1alpha1.Policy{Level: auditv1alpha1.LevelNone}}}
	if errs := kind.validate(t.Context(), sink, nil); len(errs) != 1 || !strings.Contains(errs[0].Error(), "this server has no sinks of namespaces") {
		t.Errorf("created: %v", errs)
	}
	if errs := kind.validate(t.Context(), sink, sink.DeepCopy()); len(errs) > 0 {
		t.Errorf("changed: %v", errs)
	}
}
