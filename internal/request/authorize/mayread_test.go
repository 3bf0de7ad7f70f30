package authorize

import (
	"testing"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// HF-5: a rule may read a hidden field wherever it can be read, also by its restrictions.
func TestMayReadEveryPlace(t *testing.T) {
	hidden := func(field string, keys bool) fieldperm.Hidden {
		path, err := fieldperm.ParsePath(field)
		if err != nil {
			t.Fatal(err)
		}
		return fieldperm.Hidden{Permission: "example.com/hidden", Field: path, Keys: keys}
	}
	data, label, node := hidden(".data", false), hidden(".metadata.labels[tier]", false), hidden(".spec.nodeName", false)
	restricted := func(r policyv1alpha1.AttributeRestrictions) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{AttributeRestrictions: &r}
	}
	const applied = `metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]`
	for _, tc := range []struct {
		name  string
		rule  policyv1alpha1.PolicyRule
		field fieldperm.Hidden
		want  bool
	}{
		{"what kubectl applied", policyv1alpha1.PolicyRule{Where: "resource." + applied + `.contains("x")`}, data, true},
		{"what it had applied", policyv1alpha1.PolicyRule{When: "oldObject." + applied + `.contains("x")`}, data, true},
		{"any annotation", policyv1alpha1.PolicyRule{Where: `resource.metadata.annotations.exists(k, k == "team")`}, data, true},
		{"another annotation", policyv1alpha1.PolicyRule{Where: `has(resource.metadata.annotations) && resource.metadata.annotations["team"] == "x"`}, data, false},
		{"managers", policyv1alpha1.PolicyRule{Where: `resource.metadata.managedFields.exists(m, m.manager == "x")`}, data, true},
		{"managers, of keys that are kept", policyv1alpha1.PolicyRule{Where: `resource.metadata.managedFields.exists(m, m.manager == "x")`}, hidden(".data", true), false},
		{"data as text", policyv1alpha1.PolicyRule{When: `object.stringData["x"] == "x"`}, data, true},
		{"a label", restricted(policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"team", "tier=gold"}}), label, true},
		{"any value of a label", restricted(policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"tier"}}), label, true},
		{"another label", restricted(policyv1alpha1.AttributeRestrictions{LabelsContain: []string{"team=a"}}), label, false},
		{"a node", restricted(policyv1alpha1.AttributeRestrictions{SameNodeRestriction: true}), node, true},
		{"a node, of another field", restricted(policyv1alpha1.AttributeRestrictions{SameNodeRestriction: true}), data, false},
		{"nothing", policyv1alpha1.PolicyRule{}, data, false},
	} {
		if got := MayRead(&tc.rule, tc.field); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	place := policyv1alpha1.PolicyRule{When: "namespaceObject." + applied + ` == "x"`}
	if center := hidden(".metadata.annotations[center]", false); !MayReadNamespace(&place, center) || MayRead(&place, center) {
		t.Error("what kubectl applied to the namespace")
	}
}
