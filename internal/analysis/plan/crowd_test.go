package plan

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
)

// TR-5: those who have the same are judged once, unless a condition looks at who asks, or in which namespace.
func TestWhatConditionsLookAt(t *testing.T) {
	for _, test := range []struct{ where, want string }{
		{`has(resource.data)`, "[u1 u2] in a narrower; [u1 u2] in b narrower; "},
		{`request.user == "u1"`, "[u2] in a narrower; [u2] in b narrower; "},
		{`request.namespace == "b"`, "[u1 u2] in a narrower; "},
	} {
		var policies, changed []*policyv1alpha1.Policy
		var bindings []*policyv1alpha1.PolicyBinding
		for _, ns := range []string{"a", "b"} {
			rule := policyv1alpha1.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"configmaps"}}
			role := func() *policyv1alpha1.Policy {
				return &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns}, Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: []policyv1alpha1.PolicyRule{rule}}}}
			}
			policies = append(policies, role())
			rule.Where = test.where
			changed = append(changed, role())
			bindings = append(bindings, &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns, Namespace: ns}, PolicyRef: policyv1alpha1.PolicyReference{Namespace: ns},
				RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"u1", "u2"}}}})
		}
		in := Input{Before: build(policies, bindings), After: build(changed, bindings), Server: server{}, Comparer: &compare.Comparer{Cache: compiler().Cache}, Resources: []Resource{resource}, Verbs: tried}
		changes, err := Changes(t.Context(), in)
		got := ""
		for _, c := range changes {
			var names []string
			for _, s := range c.Subjects {
				names = append(names, s.Name)
			}
			if c.Action.Verb == "create" {
				got += fmt.Sprintf("%v in %s %s; ", names, c.Action.Namespace, c.Relation)
			}
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %q, want %q (%v)", test.where, got, test.want, err)
		}
	}
}
