package offline

import (
	"cmp"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
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
		rule  policyv1alpha1.PolicyRule
		want  string
		where string // if that is another one
	}{
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods"}}, "[/v1, Kind=Pod]", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"Pod", "secrets"}}, "[/v1, Kind=Pod /v1, Kind=Secret]", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"horizontalpodautoscalers"}, APIVersion: "v1"}, "[autoscaling/v1, Kind=HorizontalPodAutoscaler]", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods"}, APIGroups: []string{"*"}}, "[/v1, Kind=Pod]", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods"}, APIGroups: []string{"apps"}}, "[]", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods", "*"}}, "[]", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods", "pods/exec"}}, "[]", "[/v1, Kind=Pod]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"Pod/attach", "services/proxy"}}, "[]", "[/v1, Kind=Pod /v1, Kind=Service]"},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods/exec", "pods/eviction"}}, "[]", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"*/exec"}}, "[]", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods", "-secrets"}}, "[]", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods", "unicorns"}}, "[]", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: many[:8]}, "8 kinds", ""},
		{policyv1alpha1.PolicyRule{ResourceKinds: many}, "[]", ""},
	} {
		for kind, want := range map[expr.Kind]string{expr.When: tt.want, expr.Where: cmp.Or(tt.where, tt.want)} { // CA-26
			var asked []string
			policies.RuleTypes(&tt.rule, kind, host.Snapshot().Served, func(gvk schema.GroupVersionKind) (*spec.Schema, error) {
				asked = append(asked, gvk.String())
				return &spec.Schema{}, nil
			})
			got := fmt.Sprint(asked)
			if len(asked) == 8 {
				got = "8 kinds"
			}
			if got != want {
				t.Errorf("%v in %v: %s asked for %s, want %s", tt.rule.ResourceKinds, tt.rule.APIGroups, kind, got, want)
			}
		}
	}
	pods := &policyv1alpha1.PolicyRule{ResourceKinds: []string{"pods"}}
	if types := policies.RuleTypes(pods, expr.When, host.Snapshot().Served, func(schema.GroupVersionKind) (*spec.Schema, error) { return nil, errors.New("no schema") }); types != nil {
		t.Errorf("a schema that is not known: %v", types)
	}
	if types := policies.RuleTypes(pods, expr.When, nil, nil); types != nil {
		t.Errorf("nothing is known to be served: %v", types)
	}
}
