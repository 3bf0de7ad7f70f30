package escalation

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/test/refmodel"
)

// costlyGrant is a grant of a writer who holds many rules, and how many steps its check may take.
type costlyGrant struct {
	name  string
	index *ruleset.Index
	grant Grant
	steps int
}

// manyRules are grants that are held. A step takes some 40 ns.
func manyRules() []costlyGrant {
	kinds, conditions, names := rolesOf(func(role, i int) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: []string{"get", fmt.Sprint("verb", i%10)}, ResourceKinds: []string{fmt.Sprintf("kind%d.group%d.example.com", i, role)}}
	}), rolesOf(func(role, i int) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: []string{"get", "update"}, ResourceKinds: []string{fmt.Sprintf("kind%d.group%d.example.com", i%60, role%7)},
			When: fmt.Sprintf("object.spec.replicas < %d", 1000*role+i)}
	}), rolesOf(func(role, i int) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"configmaps"}, ResourceNames: []string{fmt.Sprintf("name-%d-%d", role, i)}}
	})
	var everywhere rules
	for i := range 128 {
		everywhere = append(everywhere, policyv1alpha1.PolicyRule{Verbs: []string{"get", "update"}, ResourceKinds: []string{"*"}, When: fmt.Sprintf("object.spec.replicas < %d", i)})
	}
	return []costlyGrant{
		{"one of 3600 kinds", indexOf(kinds), grantOf(kinds["r7"][7:8]), 2_000_000},
		{"one of 3600 conditions", indexOf(conditions), grantOf(conditions["r7"][7:8]), 2_000_000},
		{"one of 3600 names", indexOf(names), grantOf(names["r7"][7:8]), 2_000_000},
		{"128 conditions on all kinds", indexOf(map[string]rules{"r": everywhere}), grantOf(everywhere), 1_000_000},
		{"100 conditions of 3600 on unknown kinds", indexOf(conditions), grantOf(conditions["r7"]), 7_000_000},
	}
}

// rolesOf are 36 roles of 100 rules.
func rolesOf(rule func(role, i int) policyv1alpha1.PolicyRule) map[string]rules {
	out := map[string]rules{}
	for role := range 36 {
		for i := range 100 {
			name := fmt.Sprint("r", role)
			out[name] = append(out[name], rule(role, i))
		}
	}
	return out
}

func grantOf(wanted rules) Grant {
	return Grant{User: &user.DefaultInfo{Name: "edwina"}, Namespace: "hammer", Policy: wanted}
}

// indexOf is a world in which edwina has the roles in the namespace hammer.
func indexOf(held map[string]rules) *ruleset.Index {
	w := refmodel.PolicyWorld(nil, nil)
	p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{}}
	b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
	for name, rules := range held {
		p.Roles[name] = policyv1alpha1.PolicyRole{Rules: rules}
		b.RoleBindings[name] = policyv1alpha1.PolicyRoleBinding{RoleName: name, UserNames: []string{"edwina"}}
	}
	w.Policies, w.PolicyBindings = []*policyv1alpha1.Policy{p}, []*policyv1alpha1.PolicyBinding{b}
	return ruleset.Build(inputOf(w))
}

// covers is Covers, and how many steps it took.
func covers(ix *ruleset.Index, g Grant) (steps int, err error) {
	c := &comparison{index: ix}
	err = c.covers(g)
	return c.budget.steps, err
}

// NI-6: a grant takes few steps, also for a writer who holds thousands of rules. Counted, not timed.
func TestManyRulesTakeFewSteps(t *testing.T) {
	for _, c := range manyRules() {
		steps, err := covers(c.index, c.grant)
		if err != nil || steps > c.steps {
			t.Errorf("%s: %d steps, want at most %d: %v", c.name, steps, c.steps, err)
		}
		// Its twin: somebody who holds nothing is refused, for what is missing and not for the number of rules.
		c.grant.User = &user.DefaultInfo{Name: "nobody"}
		if err := Covers(c.index, c.grant); err == nil || !strings.Contains(err.Error(), "no rule allows it") {
			t.Errorf("%s, of somebody who holds nothing: %v", c.name, err)
		}
	}
}

// NI-6: names that rules mention at one resource make no other resource worth a longer look. A grant on all kinds is
// decided, where a product of all resources and all names would be too much to compare.
func TestNamesMatterWhereTheyAreMentioned(t *testing.T) {
	held := rolesOf(func(role, i int) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{fmt.Sprintf("kind%d.group%d.example.com", i%50, role%4)}, ResourceNames: []string{fmt.Sprintf("name-%d-%d", role, i)}}
	})
	held["all"] = rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*.group1.example.com", "*.group2.example.com", "pods"}}}
	ix := indexOf(held)
	if steps, err := covers(ix, grantOf(rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*.group1.example.com"}}})); err != nil {
		t.Errorf("what is held: %d steps: %v", steps, err)
	}
	steps, err := covers(ix, grantOf(rules{{Verbs: []string{"get"}, ResourceKinds: []string{"*.group3.example.com"}}}))
	if err == nil || !strings.Contains(err.Error(), "no rule allows it") {
		t.Errorf("what is held of some objects: %d steps: %v", steps, err)
	}
}

// NI-6: what is too much is refused at the limit, all comparisons of a check together, with a remedy.
func TestTooMuchIsRefusedAtTheLimit(t *testing.T) {
	var kinds, verbs []string
	var starred rules
	for i := range 4000 {
		kinds, verbs = append(kinds, fmt.Sprint("Kind", i)), append(verbs, fmt.Sprint("verb", i))
	}
	for i := range 128 {
		starred = append(starred, policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"*", fmt.Sprintf("-thing%d", i)}, When: fmt.Sprint("object.x == ", i)})
	}
	ix := indexOf(map[string]rules{"edit": {{Verbs: []string{"*"}, ResourceKinds: append([]string{"*"}, "-secrets", "-Role")}}})
	for name, wanted := range map[string]rules{
		"kinds":      {{Verbs: []string{"get"}, ResourceKinds: kinds}},
		"verbs":      {{Verbs: verbs, ResourceKinds: []string{"pods"}}},
		"conditions": starred,
	} {
		steps, err := covers(ix, grantOf(wanted))
		if err == nil || !strings.Contains(err.Error(), "too many to compare: split the role") {
			t.Errorf("%s: %d steps: %v", name, steps, err)
		}
		if name != "verbs" && steps > maxSteps+100_000 { // the verbs are counted before they are looked at
			t.Errorf("%s: %d steps, the limit is %d", name, steps, maxSteps)
		}
	}
}
