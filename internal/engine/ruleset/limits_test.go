package ruleset

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

func policyOf(namespace string, roles map[string][]policyv1alpha1.PolicyRule) *policyv1alpha1.Policy {
	p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: policyv1alpha1.PolicyName}, Roles: map[string]policyv1alpha1.PolicyRole{}}
	for name, rules := range roles {
		p.Roles[name] = policyv1alpha1.PolicyRole{Rules: rules}
	}
	return p
}

func boundTo(namespace string, roles ...string) *policyv1alpha1.PolicyBinding {
	b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namespace},
		PolicyRef: policyv1alpha1.PolicyReference{Namespace: namespace}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
	for _, r := range roles {
		b.RoleBindings[r] = policyv1alpha1.PolicyRoleBinding{RoleName: r, UserNames: []string{"alice"}}
	}
	return b
}

// PO-21: limits quarantine by counting. What is over one grants nothing and denies without its condition; what is at it
// takes effect.
func TestLimitsQuarantine(t *testing.T) {
	limits := Limits{RoleRules: 10, RoleBytes: 1000, RoleConditions: 4, NamespaceConditions: 6, NamespaceConditionBytes: 60, MasterFactor: 2}
	conditional := func(deny bool, verb, kind string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Deny: deny, Verbs: []string{verb}, ResourceKinds: []string{kind}, When: "object.a"}
	}
	many := func(n int, r policyv1alpha1.PolicyRule) (out []policyv1alpha1.PolicyRule) {
		for i := range n {
			r.Description = fmt.Sprint(i)
			out = append(out, r)
		}
		return out
	}
	long := allow("get", "secrets")
	long.ResourceNames = []string{strings.Repeat("n", 1001)}
	for _, tc := range []struct {
		name      string
		namespace string
		roles     map[string][]policyv1alpha1.PolicyRule
		over      bool
	}{
		{"rules", "hammer", map[string][]policyv1alpha1.PolicyRule{"r": append(many(10, allow("get", "secrets")), conditional(true, "delete", "pods"))}, true},
		{"rules at the limit", "hammer", map[string][]policyv1alpha1.PolicyRule{"r": append(many(9, allow("get", "secrets")), conditional(true, "delete", "pods"))}, false},
		{"bytes", "hammer", map[string][]policyv1alpha1.PolicyRule{"r": {long, conditional(true, "delete", "pods")}}, true},
		{"conditions of the role", "hammer", map[string][]policyv1alpha1.PolicyRule{"r": append(many(4, conditional(false, "create", "pods")), conditional(true, "delete", "pods"))}, true},
		{"conditions of the role at the limit", "hammer", map[string][]policyv1alpha1.PolicyRule{"r": append(many(3, conditional(false, "create", "pods")), conditional(true, "delete", "pods"))}, false},
		{"conditions of the namespace", "hammer", map[string][]policyv1alpha1.PolicyRule{
			"r": {conditional(true, "delete", "pods")}, "a": many(3, conditional(false, "create", "pods")), "b": many(3, conditional(false, "create", "pods"))}, true},
		{"conditions of the namespace at the limit", "hammer", map[string][]policyv1alpha1.PolicyRule{
			"r": {conditional(true, "delete", "pods")}, "a": many(3, conditional(false, "create", "pods")), "b": many(2, conditional(false, "create", "pods"))}, false},
		{"the master namespace may have more", "master", map[string][]policyv1alpha1.PolicyRule{
			"r": {conditional(true, "delete", "pods")}, "a": many(3, conditional(false, "create", "pods")), "b": many(3, conditional(false, "create", "pods"))}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ix := Build(Input{MasterNamespace: "master", Limits: limits, CompileRule: compileText, Kinds: someKinds,
				Policies:       []*policyv1alpha1.Policy{policyOf(tc.namespace, tc.roles)},
				PolicyBindings: []*policyv1alpha1.PolicyBinding{boundTo(tc.namespace, "r", "a", "b")}})
			request := ask("alice", "delete", "pods")
			request.Namespace = "hammer"
			var q Query
			q.Reset(ix, request)
			m := q.PolicyNamespace()
			if tc.namespace == "master" {
				m = q.PolicyMaster()
			}
			if m.Deny.Found() != tc.over || m.ConditionalDeny == tc.over {
				t.Errorf("deny without its condition: %v, with it: %v", m.Deny.Found(), m.ConditionalDeny)
			}
			problems := 0
			for _, p := range ix.Problems() {
				if errors.Is(p.Err, ErrLimit) {
					problems++
				}
			}
			if (problems > 0) != tc.over || problems > len(tc.roles) {
				t.Errorf("%d problems: %v", problems, ix.Problems())
			}
		})
	}
}

// Crossing the limit of a namespace, and going back below it, concerns its other roles as well.
func TestNamespaceLimitComesAndGoes(t *testing.T) {
	conditional := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}, When: "object.a"}
	few := policyOf("hammer", map[string][]policyv1alpha1.PolicyRule{"r": {conditional}})
	many := policyOf("hammer", map[string][]policyv1alpha1.PolicyRule{"r": {conditional}, "other": {conditional}})
	ix := Build(Input{MasterNamespace: "master", Limits: Limits{NamespaceConditions: 1}, CompileRule: compileText, Kinds: someKinds,
		Policies: []*policyv1alpha1.Policy{few}, PolicyBindings: []*policyv1alpha1.PolicyBinding{boundTo("hammer", "r")}})
	over := ix.Apply(Put(many))
	back := over.Apply(Put(few))
	for i, step := range []struct {
		ix   *Index
		over bool
	}{{ix, false}, {over, true}, {back, false}} {
		request := ask("alice", "delete", "pods")
		request.Namespace = "hammer"
		if m := step.ix.PolicyNamespace(request); m.Deny.Found() != step.over || m.ConditionalDeny == step.over {
			t.Errorf("step %d: %+v", i, m)
		}
	}
}

// SV-8: a condition of which turns out later that it does not compile quarantines its rule then.
func TestRecheck(t *testing.T) {
	bad := false
	compile := func(_ RoleRef, _ int, r *policyv1alpha1.PolicyRule) (matching.Condition, error) {
		if bad && r.When == "bad" {
			return nil, errors.New("does not compile")
		}
		return text(r.When), nil
	}
	rule := func(deny bool, verb, when string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Deny: deny, Verbs: []string{verb}, ResourceKinds: []string{"pods"}, When: when}
	}
	ix := Build(Input{MasterNamespace: "master", CompileRule: compile, Kinds: someKinds,
		Policies: []*policyv1alpha1.Policy{policyOf("hammer", map[string][]policyv1alpha1.PolicyRule{
			"r": {rule(true, "delete", "bad"), rule(false, "create", "bad"), rule(false, "update", "good")}, "other": {rule(false, "update", "good")},
		})},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{boundTo("hammer", "r")}})
	bad = true
	after := ix.Apply(Recheck(func(r *policyv1alpha1.PolicyRule) bool { return r.When == "bad" }))
	for _, tc := range []struct {
		ix                      *Index
		verb                    string
		deny, mayDeny, mayAllow bool
	}{
		{ix, "delete", false, true, false}, {after, "delete", true, false, false},
		{ix, "create", false, false, true}, {after, "create", false, false, false},
		{ix, "update", false, false, true}, {after, "update", false, false, true},
	} {
		request := ask("alice", tc.verb, "pods")
		request.Namespace = "hammer"
		if m := tc.ix.PolicyNamespace(request); m.Deny.Found() != tc.deny || m.ConditionalDeny != tc.mayDeny || m.ConditionalAllow != tc.mayAllow {
			t.Errorf("%s: %+v", tc.verb, m)
		}
	}
	if len(ix.Problems()) != 0 || len(after.Problems()) != 2 {
		t.Errorf("problems %v, then %v", ix.Problems(), after.Problems())
	}
	ref := RoleRef{PolicyRole, "hammer", "other"}
	if ix.role(ref) != after.role(ref) {
		t.Error("a role that is not concerned was compiled again")
	}
}
