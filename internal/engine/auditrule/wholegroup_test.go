package auditrule

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// DA-2: a selector without resources is everything in its group, subresources included; a resource without subresources
// is itself alone.
func TestWholeGroup(t *testing.T) {
	core := []v1alpha1.GroupResourceSelector{{Group: ""}}
	pods := []v1alpha1.GroupResourceSelector{{Group: "", Resources: []v1alpha1.ResourceSelector{{Kind: "pods"}}}}
	for _, tc := range []struct {
		name      string
		selectors []v1alpha1.GroupResourceSelector
		group     string
		sub       string
		want      Level
	}{
		{"the group, pods", core, "", "", Metadata},
		{"the group, pods/exec", core, "", "exec", Metadata},
		{"the group, another one", core, "apps", "", None},
		{"pods, pods", pods, "", "", Metadata},
		{"pods, pods/exec", pods, "", "exec", None},
	} {
		class := &v1alpha1.AuditClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{{GroupResourceSelectors: tc.selectors}}}}
		policy := v1alpha1.Policy{Rules: []v1alpha1.PolicyRule{{Level: v1alpha1.LevelMetadata, WithAuditClass: "c"}}}
		ix := Compile([]Source{{Name: "s", Policy: policy, Receives: true}}, []*v1alpha1.AuditClass{class})
		got := ix.Max(authorizer.AttributesRecord{Verb: "create", APIGroup: tc.group, Resource: "pods", Subresource: tc.sub, Namespace: "n", Name: "p", ResourceRequest: true})
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
