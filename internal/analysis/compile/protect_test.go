package compile

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// protected compiles protections, with roles that are bound to ann: of Policy in master and in team, and of RBAC.
func protected(t *testing.T, rules []rbacv1.PolicyRule, protections ...protectedattr.Protection) *Result {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var served []matching.Served
	for _, r := range resources {
		served = append(served, matching.Served{Group: r.Group, Resource: r.Resource, Kind: strings.TrimSuffix(r.Resource, "s"), Builtin: true})
	}
	roles := map[string]policyv1alpha1.PolicyRole{}
	for i := range 6 {
		roles[fmt.Sprintf("r%d", i)] = policyv1alpha1.PolicyRole{}
	}
	policy := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "default"}, Roles: roles}
	var bindings []*policyv1alpha1.PolicyBinding
	for _, scope := range []string{"master", "team"} {
		bindings = append(bindings, &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: scope, Name: "master"},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r0", UserNames: []string{"ann-" + scope}}}})
	}
	compiler := &rulecondition.Compiler{CEL: cel}
	ix := ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: matching.NewKinds(served), CompileRule: compiler.CompileRule,
		Policies: []*policyv1alpha1.Policy{policy}, PolicyBindings: bindings,
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "keepers"}, Rules: rules}}})
	result, err := Compile(Input{Index: ix, Bindings: bindings, CEL: cel, Resources: resources, World: alone{},
		Protected: protectedattr.Config{Protections: protections, Master: "master"}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func byPolicy(i int) protectedattr.Role {
	return protectedattr.Role{Kind: protectedattr.KindPolicyRole, Namespace: "master", Name: fmt.Sprintf("r%d", i)}
}

var keepers = protectedattr.Role{Kind: protectedattr.KindClusterRole, Name: "keepers"}

// MC-4: a protected attribute is one policy for what has it in its own metadata, and others for what carries it for
// others. Who is bound to its role, and where, has a right by which the policy knows them.
func TestProtectedAttribute(t *testing.T) {
	result := protected(t, nil, protectedattr.Protection{Name: "env", Key: "env", Values: []string{"prod"}, Role: byPolicy(0)})
	if len(result.Assessments) != 1 || result.Assessments[0].Verdict != Stronger || result.Assessments[0].Rule != "ClusterProtectedAttribute/env" {
		t.Fatalf("%+v", result.Assessments[0])
	}
	policies := map[string]*admissionv1.ValidatingAdmissionPolicy{}
	for _, o := range result.Policies {
		if p, ok := o.(*admissionv1.ValidatingAdmissionPolicy); ok {
			policies[p.Spec.MatchConstraints.ResourceRules[0].Resources[0]] = p
		}
	}
	usual, pods, deployments := policies["*/*"], policies["pods"], policies["deployments"]
	if len(policies) != 3 || usual == nil || pods == nil || deployments == nil {
		t.Fatalf("got %d policies", len(policies))
	}
	if match := usual.Spec.MatchConditions[0].Expression; !strings.Contains(match, `!(`) || !strings.Contains(match, `"/pods"`) || !strings.Contains(match, `"system:masters"`) {
		t.Error(match)
	}
	text := fmt.Sprint(deployments.Spec.Variables)
	for _, want := range []string{`"Policy/master/r0"`, `check("stranger")`, "template", `["prod"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("the policy of deployments does not have %s:\n%s", want, text)
		}
	}
	bound := map[string]string{}
	for _, o := range result.Grants {
		switch o := o.(type) {
		case *rbacv1.ClusterRoleBinding:
			bound["cluster"] = o.Subjects[0].Name
		case *rbacv1.RoleBinding:
			bound[o.Namespace] = o.Subjects[0].Name
		case *rbacv1.Role:
			if o.Rules[0].Verbs[0] != memberVerb || o.Rules[0].ResourceNames[0] != "Policy/master/r0" || len(o.Rules) != 1 {
				t.Errorf("%+v", o.Rules)
			}
		}
	}
	if len(bound) != 2 || bound["cluster"] != "ann-master" || bound["team"] != "ann-team" {
		t.Errorf("bound are %v", bound)
	}
}

// MC-4: what cannot be told is impossible, with the reason, and has no policy; its twin that can be told has one.
func TestProtectionsThatAreLost(t *testing.T) {
	of := func(n int) (all []protectedattr.Protection) {
		for i := range n {
			all = append(all, protectedattr.Protection{Name: fmt.Sprintf("p%d", i), Key: "env", Values: []string{fmt.Sprint(i)}, Role: byPolicy(i)})
		}
		return all
	}
	keeps := []protectedattr.Protection{{Name: "env", Key: "env", Role: keepers}}
	for _, tt := range []struct {
		name        string
		rules       []rbacv1.PolicyRule
		protections []protectedattr.Protection
		lost        string
	}{
		{"four roles", nil, of(4), ""},
		{"five roles", nil, of(5), "protected by 5 roles in one place, and a policy can ask for 4"},
		{"a role of RBAC that says it", memberRules(keepers), keeps, ""},
		{"a role of RBAC that does not", nil, keeps, `add the rule {apiGroups: [compile.proviso.dev], resources: [roles], resourceNames: ["ClusterRole/keepers"], verbs: [member]}`},
		{"a role of RBAC with every verb", []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}, keeps, "add the rule"},
		{"a role that is not there", nil, []protectedattr.Protection{{Name: "env", Key: "env", Role: protectedattr.Role{Kind: protectedattr.KindClusterRole, Name: "gone"}}}, "add the rule"},
		{"a role that nobody can be bound to", nil, []protectedattr.Protection{{Name: "env", Key: "env", Role: protectedattr.Role{Kind: "x", Name: "y"}}}, ""},
		{"no key", nil, []protectedattr.Protection{{Name: "env", Role: byPolicy(0)}}, "does not say what it protects"},
		{"a domain, and a key of it", memberRules(keepers), []protectedattr.Protection{{Name: "all", Key: "example.com/*", Role: keepers}, {Name: "one", Key: "example.com/env", Role: byPolicy(0)}}, ""},
	} {
		result := protected(t, tt.rules, tt.protections...)
		for _, a := range result.Assessments {
			if tt.lost == "" && len(a.Lost) > 0 || tt.lost != "" && !strings.Contains(strings.Join(a.Lost, "\n"), tt.lost) {
				t.Errorf("%s: %s: lost is %q, want %q", tt.name, a.Rule, a.Lost, tt.lost)
			}
		}
		if lost := len(result.Policies) == 0; lost != (tt.lost != "") {
			t.Errorf("%s: %d objects", tt.name, len(result.Policies))
		}
	}
}

// MC-4: a namespace is not in itself: its labels are those of the cluster.
func TestProtectionOfANamespace(t *testing.T) {
	result := protected(t, nil, protectedattr.Protection{Name: "env", Namespace: "team", Key: "env", Role: byPolicy(0)})
	for _, o := range result.Policies {
		if p, ok := o.(*admissionv1.ValidatingAdmissionPolicy); ok && !strings.Contains(p.Spec.MatchConditions[0].Expression, `request.?namespace.orValue("") == "team" && request.requestResource.group + "/" + request.requestResource.resource != "/namespaces"`) {
			t.Error(p.Spec.MatchConditions[0].Expression)
		}
	}
	if len(result.Policies) == 0 || result.Assessments[0].Rule != "ProtectedAttribute/team/env" {
		t.Errorf("%+v", result.Assessments)
	}
}
