package offline

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/features/policies"
)

// CA-11: a rule that names its kinds one by one is checked against their schemas, in its version or the preferred one;
// every other rule, and one of which a schema is not known, is left unchecked.
func TestRuleTypes(t *testing.T) {
	host, err := New(hubertAndEdgar(t))
	if err != nil {
		t.Fatal(err)
	}
	many := []string{"pods", "secrets", "configmaps", "services", "endpoints", "persistentvolumes", "nodes", "namespaces", "serviceaccounts"}
	for _, tt := range []struct {
		rule policyv1alpha1.PolicyRule
		want string
	}{
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods"}}, "[/v1, Kind=Pod]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"Pod", "secrets"}}, "[/v1, Kind=Pod /v1, Kind=Secret]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"horizontalpodautoscalers"}, APIVersion: "v1"}, "[autoscaling/v1, Kind=HorizontalPodAutoscaler]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods"}, APIGroups: []string{"*"}}, "[/v1, Kind=Pod]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods"}, APIGroups: []string{"apps"}}, "[]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods", "*"}}, "[]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods", "pods/exec"}}, "[]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods", "-secrets"}}, "[]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods", "unicorns"}}, "[]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: many[:8]}, "8 kinds"},
		{policyv1alpha1.PolicyRule{ResourceKinds: many}, "[]"},
	} {
		var asked []string
		policies.RuleTypes(&tt.rule, host.Snapshot().Served, func(gvk schema.GroupVersionKind) (*spec.Schema, error) {
			asked = append(asked, gvk.String())
			return &spec.Schema{}, nil
		})
		got := fmt.Sprint(asked)
		if len(asked) == 8 {
			got = "8 kinds"
		}
		if got != tt.want {
			t.Errorf("%v in %v: asked for %s, want %s", tt.rule.ResourceKinds, tt.rule.APIGroups, got, tt.want)
		}
	}
	pods := &policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods"}}
	if types := policies.RuleTypes(pods, host.Snapshot().Served, func(schema.GroupVersionKind) (*spec.Schema, error) { return nil, errors.New("no schema") }); types != nil {
		t.Errorf("a schema that is not known: %v", types)
	}
	if types := policies.RuleTypes(pods, nil, nil); types != nil {
		t.Errorf("nothing is known to be served: %v", types)
	}
}
