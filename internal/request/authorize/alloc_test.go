package authorize

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// manyRules is an index with one conditional allow and one conditional deny that concern edgar's update of widgets0,
// and n conditional rules that do not: of other users, in edgar's own role, or in other roles of his.
func manyRules(compiler *rulecondition.Compiler, shape string, n int) *ruleset.Index {
	policy := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{}}
	bindings := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
	var served []ruleset.Served
	add := func(role, subject string, i int, deny bool) {
		policy.Roles[role] = policyv1alpha1.PolicyRole{Rules: append(policy.Roles[role].Rules, policyv1alpha1.PolicyRule{Deny: deny, Verbs: []string{"update"},
			ResourceKinds: []string{fmt.Sprintf("widgets%d.example.com", i)}, When: []string{"object.spec.replicas < 3", `object.spec.owner == "eve"`}[i%2]})}
		bindings.RoleBindings[role] = policyv1alpha1.PolicyRoleBinding{RoleName: role, UserNames: []string{subject}}
	}
	for i := range n + 1 {
		served = append(served, ruleset.Served{Group: "example.com", Resource: fmt.Sprintf("widgets%d", i), Kind: fmt.Sprintf("Widget%d", i)})
		role, subject := "role", "edgar"
		switch {
		case i > 0 && shape == "users":
			role, subject = fmt.Sprint("role-", i), fmt.Sprint("user-", i)
		case i > 0 && shape == "roles":
			role = fmt.Sprint("role-", i)
		}
		add(role, subject, i, false)
		add(role, subject, i, true)
	}
	compiled := map[string]ruleset.Condition{} // compiling thousands of rules takes seconds, and these are all alike
	compile := func(role ruleset.RoleRef, index int, rule *policyv1alpha1.PolicyRule) (c ruleset.Condition, err error) {
		key := fmt.Sprint(rule.Deny, rule.When)
		if c = compiled[key]; c == nil {
			c, err = compiler.CompileRule(role, index, rule)
			compiled[key] = c
		}
		return c, err
	}
	return ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: ruleset.NewKinds(served), CompileRule: compile,
		Policies: []*policyv1alpha1.Policy{policy}, PolicyBindings: []*policyv1alpha1.PolicyBinding{bindings}})
}

// CA-13: what a conditional decision allocates does not grow with the number of rules that do not apply.
func TestAllocationsDoNotGrowWithRules(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	compiler := &rulecondition.Compiler{CEL: cel}
	const few, many = 10, 10_000
	for _, shape := range []string{"users", "rules", "roles"} {
		t.Run(shape, func(t *testing.T) {
			var allocations [2]float64
			for i, n := range []int{few, many} {
				ctx := requestctx.With(t.Context(), &snapshot.Snapshot{Rules: manyRules(compiler, shape, n)})
				chain := tiers(t, snapshot.NewStore())
				var attrs authorizer.Attributes = authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar", Groups: []string{"system:authenticated"}},
					Verb: "update", Namespace: "hammer", APIGroup: "example.com", APIVersion: "v1", Resource: "widgets0", Name: "w", ResourceRequest: true}
				allocations[i] = testing.AllocsPerRun(100, func() {
					if v := chain.Decide(ctx, attrs); v.Pending == nil {
						t.Fatalf("decided without the object: %+v", v)
					}
				})
			}
			if allocations[0] != allocations[1] {
				t.Errorf("%v allocations among %d rules, %v among %d", allocations[0], few, allocations[1], many)
			}
		})
	}
}
