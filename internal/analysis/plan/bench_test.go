package plan

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// large is a policy of 1,000 namespaces with 10 roles and 100 bindings each: 10,000 conditional rules, 100,000
// bindings. The policy and the bindings of the first come with it.
func large() (*ruleset.Index, *policyv1alpha1.Policy, *policyv1alpha1.PolicyBinding) {
	var policies []*policyv1alpha1.Policy
	var bindings []*policyv1alpha1.PolicyBinding
	for n := range 1000 {
		ns := fmt.Sprint("ns-", n)
		p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns}, Roles: map[string]policyv1alpha1.PolicyRole{}}
		b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: ns, Namespace: ns}, PolicyRef: policyv1alpha1.PolicyReference{Namespace: ns}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for i := range 10 {
			p.Roles[fmt.Sprint("r", i)] = policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create", "update"}, ResourceKinds: []string{fmt.Sprint("kind", i), "configmaps"}, Where: fmt.Sprintf(`resource.metadata.name == "n%d"`, i)}}}
		}
		for i := range 100 {
			b.RoleBindings[fmt.Sprint("b", i)] = policyv1alpha1.PolicyRoleBinding{RoleName: fmt.Sprint("r", i%10), UserNames: []string{fmt.Sprint("user-", (n*100+i)%20_000)}}
		}
		policies, bindings = append(policies, p), append(bindings, b)
	}
	return build(policies, bindings), policies[0], bindings[0]
}

// BenchmarkChanges: TR-5's figures, after loading: a changed role in at most 1 s, a changed binding in at most 200 ms.
func BenchmarkChanges(b *testing.B) {
	before, policy, bindings := large()
	in := Input{Before: before, Server: server{}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}}
	in.Resources = append(in.Resources, resource)
	for i := range 100 {
		in.Resources = append(in.Resources, Resource{Version: "v1", Resource: fmt.Sprint("kind", i), Namespaced: true})
	}
	for name, test := range map[string]struct {
		change func(*policyv1alpha1.Policy, *policyv1alpha1.PolicyBinding)
		want   int
	}{
		"role": {func(p *policyv1alpha1.Policy, _ *policyv1alpha1.PolicyBinding) {
			p.Roles["r0"] = policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"create", "update"}, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.name in ["n0", "n1"]`}}}
		}, 10},
		"binding": {func(_ *policyv1alpha1.Policy, b *policyv1alpha1.PolicyBinding) {
			delete(b.RoleBindings, "b0")
		}, 1},
	} {
		p, bound := policy.DeepCopy(), bindings.DeepCopy()
		test.change(p, bound)
		in.After = before.Apply(ruleset.Put(p), ruleset.Put(bound))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				in.Comparer = &compare.Comparer{Cache: compiler().Cache}
				changes, err := Changes(b.Context(), in)
				subjects := map[ruleset.Subject]bool{}
				for _, c := range changes {
					for _, s := range c.Subjects {
						subjects[s] = true
					}
				}
				if err != nil || len(subjects) != test.want {
					b.Fatalf("%d changes for %d subjects, %v", len(changes), len(subjects), err)
				}
			}
		})
	}
}
