package compile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

type rule = policyv1alpha1.PolicyRule

// resources are a small world.
var resources = []plan.Resource{
	{Version: "v1", Resource: "pods", Namespaced: true, Own: true},
	{Version: "v1", Resource: "pods", Subresource: "exec", Namespaced: true},
	{Version: "v1", Resource: "pods", Subresource: "eviction", Namespaced: true},
	{Version: "v1", Resource: "secrets", Namespaced: true, Own: true},
	{Version: "v1", Resource: "nodes", Own: true},
	{Group: "apps", Version: "v1", Resource: "deployments", Namespaced: true, Own: true},
	{Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale", Namespaced: true},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings", Namespaced: true, Own: true},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies", Own: true},
}

// alone is a world with one server and nothing that is shipped.
type alone struct{}

func (alone) Elsewhere(string, string) bool                                  { return false }
func (alone) Default(ruleset.RoleRef) bool                                   { return false }
func (alone) Shipped(string, string, *policyv1alpha1.PolicyRoleBinding) bool { return false }

// compiled compiles rules that are bound to ann: in master, or in a namespace.
func compiled(t *testing.T, namespace string, accept []string, rules ...rule) *Result {
	t.Helper()
	return compiledIn(t, namespace, []string{"ann"}, accept, rules)
}

// compiledFor compiles rules that are bound in master to others.
func compiledFor(t *testing.T, users []string, rules ...rule) *Result {
	t.Helper()
	return compiledIn(t, "master", users, nil, rules)
}

func compiledIn(t *testing.T, namespace string, users, accept []string, rules []rule) *Result {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var served []matching.Served
	for _, r := range resources {
		served = append(served, matching.Served{Group: r.Group, Resource: r.Resource, Kind: strings.TrimSuffix(r.Resource, "s"), Builtin: true})
	}
	policy := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: rules}}}
	binding := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namespace},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"r": {RoleName: "r", UserNames: users}}}
	compiler := &rulecondition.Compiler{CEL: cel}
	ix := ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: matching.NewKinds(served), CompileRule: compiler.CompileRule,
		Policies: []*policyv1alpha1.Policy{policy}, PolicyBindings: []*policyv1alpha1.PolicyBinding{binding}})
	result, err := Compile(Input{Index: ix, Bindings: []*policyv1alpha1.PolicyBinding{binding}, CEL: cel, Resources: resources, World: alone{}, Accept: accept})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// granted are the rights of RBAC, as group/resource verb.
func granted(result *Result) map[string]bool {
	all := map[string]bool{}
	for _, o := range result.Grants {
		var rules []rbacv1.PolicyRule
		switch o := o.(type) {
		case *rbacv1.Role:
			rules = o.Rules
		case *rbacv1.ClusterRole:
			rules = o.Rules
		}
		for _, r := range rules {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					all[fmt.Sprintf("%s/%s %s", r.APIGroups[0], resource, verb)] = true
				}
			}
		}
	}
	return all
}

// MC-2: what cannot be had is lost with its reason, and not granted; its twin that can be had is not lost.
func TestVerdicts(t *testing.T) {
	small := `resource.metadata.name == "small"`
	for _, test := range []struct {
		name    string
		rule    rule
		want    Fidelity
		lost    string
		has, no string
	}{
		{"a plain grant", rule{Verbs: []string{"get", "update"}, ResourceKinds: []string{"pods"}}, Exact, "", "/pods patch", "/pods delete"},
		{"everything but", rule{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-secrets"}}, Stronger, "", "apps/deployments get", "/secrets get"},
		{"exec by the parent", rule{Verbs: []string{"exec"}, ResourceKinds: []string{"pods"}}, Exact, "", "/pods/exec create", "/pods create"},
		{"a star does not escalate", rule{Verbs: []string{"*"}, ResourceKinds: []string{"pods"}}, Exact, "", "/pods deletecollection", "/pods *"},
		{"a condition on writes", rule{Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, Where: small}, Stronger, "", "/pods create", "/pods get"},
		{"a condition on reads", rule{Verbs: []string{"create", "get"}, ResourceKinds: []string{"pods"}, Where: small}, Impossible, "reads under a condition", "/pods create", "/pods get"},
		{"a condition on a connection", rule{Verbs: []string{"exec"}, ResourceKinds: []string{"pods"}, When: `request.user == "ann"`}, Impossible, "condition on connections", "", "/pods/exec create"},
		// CA-26: a where about a target cannot be had, and is not left out.
		{"a where on a connection", rule{Verbs: []string{"exec"}, ResourceKinds: []string{"pods"}, Where: small}, Impossible, "condition on connections", "", "/pods/exec create"},
		{"a where on a connection by its name", rule{Verbs: []string{"create"}, ResourceKinds: []string{"pods", "pods/exec"}, Where: small}, Impossible, "condition on connections", "/pods create", "/pods/exec create"},
		{"a deny with where on a connection", rule{Deny: true, Verbs: []string{"exec"}, ResourceKinds: []string{"pods"}, Where: small}, Impossible, "conditions on connections", "", ""},
		{"a body of another kind", rule{Verbs: []string{"update"}, ResourceKinds: []string{"deployments/scale"}, Where: small}, Exact, "", "", "apps/deployments/scale update"},
		{"fieldsMutable", rule{Verbs: []string{"update"}, ResourceKinds: []string{"pods"}, AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{FieldsMutable: []string{"labels"}}},
			Impossible, "fieldsMutable", "", "/pods update"},
		{"time", rule{Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, When: `request.time < timestamp("2030-01-01T00:00:00Z")`}, Impossible, "request.time", "", "/pods create"},
		{"the whole request", rule{Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, When: `dyn(request) != null`}, Impossible, "as a whole", "", "/pods create"},
		{"update or patch", rule{Verbs: []string{"update"}, ResourceKinds: []string{"pods"}, When: `request.verb == "patch"`}, Impossible, "request.verb", "", "/pods update"},
		{"one of them", rule{Verbs: []string{"patch"}, ResourceKinds: []string{"pods"}, When: `request.verb == "patch"`}, Stronger, "", "/pods patch", "/pods update"},
		{"single fields", rule{Verbs: []string{"granular", "get"}, ResourceKinds: []string{"pods"}}, Impossible, "rights to single fields", "/pods get", "/pods granular"},
		{"what admission does not see", rule{Verbs: []string{"create"}, ResourceKinds: []string{"validatingadmissionpolicies.admissionregistration.k8s.io"}, Where: small},
			Impossible, "admission policies do not see", "", "admissionregistration.k8s.io/validatingadmissionpolicies create"},
		{"a shadow", rule{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}, Enforcement: policyv1alpha1.EnforcementShadow}, Impossible, "not enforced", "", "/pods get"},
		{"a deny", rule{Deny: true, Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, Where: small}, Stronger, "", "", "/pods create"},
		{"a deny of reads", rule{Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}, Impossible, "denies of reads", "", ""},
		{"a deny of reads of what is not served", rule{Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"widgets"}}, Impossible, "denies of reads", "", ""},
		{"a deny of paths", rule{Deny: true, Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}, Impossible, "paths", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := compiled(t, "master", nil, test.rule)
			f := result.Assessments[0]
			if f.Rule != "master/r/0" || f.Verdict != test.want || test.lost != "" && !strings.Contains(f.Text(), test.lost) {
				t.Errorf("%s: %s: %s", f.Rule, f.Verdict, f.Text())
			}
			if all := granted(result); test.has != "" && !all[test.has] || all[test.no] {
				t.Errorf("granted: %v", all)
			}
			if impossible := len(result.Impossible()) > 0; impossible != (test.want == Impossible) {
				t.Errorf("impossible: %t", impossible)
			}
			if len(compiled(t, "master", []string{"master/r"}, test.rule).Impossible()) > 0 {
				t.Error("it cannot be accepted")
			}
		})
	}
}

// MC-2: a path has the verbs that the rule itself matches: a negated update takes patch out, too.
func TestVerbsOfPaths(t *testing.T) {
	for _, test := range []struct{ verbs, want string }{
		{"* -update", "delete get head options post put"},
		{"*", "delete get head options patch post put"},
		{"update", "patch"}, // of HTTP, a put is put
		{"update -patch", ""},
		{"get patch", "get patch"},
		{"* -delete", "get head options patch post put"},
		{"get *  -*", ""},
	} {
		result := compiled(t, "master", nil, rule{Verbs: strings.Fields(test.verbs), NonResourceURLs: []string{"/debug/*"}})
		var got []string
		for _, o := range result.Grants {
			if role, ok := o.(*rbacv1.ClusterRole); ok {
				for _, r := range role.Rules {
					got = append(got, r.Verbs...)
				}
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: granted %v, want %s", test.verbs, got, test.want)
		}
	}
}

// MC-3: every grant under a condition has a policy, and no grant of ours has every verb, which would free its holder.
func TestGrantsHaveTheirPolicies(t *testing.T) {
	result := compiled(t, "team", nil,
		rule{Verbs: []string{"*"}, ResourceKinds: []string{"deployments"}},
		rule{Verbs: []string{"create", "update"}, ResourceKinds: []string{"pods"}, Where: `resource.metadata.name == "small"`, Description: "only small"},
		rule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"*"}})
	var policies []*admissionv1.ValidatingAdmissionPolicy
	for _, o := range result.Policies {
		if p, ok := o.(*admissionv1.ValidatingAdmissionPolicy); ok {
			policies = append(policies, p)
		}
	}
	if len(policies) != 2 || len(result.Policies) != 4 {
		t.Fatalf("%d policies of %d objects", len(policies), len(result.Policies))
	}
	for _, p := range policies {
		if *p.Spec.FailurePolicy != admissionv1.Fail || !strings.Contains(p.Spec.MatchConditions[0].Expression, "system:masters") {
			t.Errorf("%s fails open, or holds cluster admins", p.Name)
		}
	}
	for right := range granted(result) {
		if strings.HasSuffix(right, "*") || strings.HasSuffix(right, Unheld) {
			t.Errorf("%s frees its holder", right)
		}
	}
}

// MC-2: RBAC's escalation check knows no conditions. Who is held to one, or denied something, must not hand out rights.
func TestRightsAreNotHandedOut(t *testing.T) {
	writes := rule{Verbs: []string{"create", "get"}, ResourceKinds: []string{"rolebindings.rbac.authorization.k8s.io"}}
	const right = "rbac.authorization.k8s.io/rolebindings create"
	if result := compiled(t, "team", nil, writes); !granted(result)[right] || len(result.Impossible()) > 0 {
		t.Errorf("%v, %v", granted(result), result.Assessments[0].Text())
	}
	for _, other := range []rule{
		{Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, Where: `resource.metadata.name == "a"`},
		{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}},
	} {
		result := compiled(t, "team", nil, writes, other)
		if all := granted(result); all[right] || !all["rbac.authorization.k8s.io/rolebindings get"] || len(result.Impossible()) != 1 {
			t.Errorf("%v, %v", all, result.Assessments[0].Text())
		}
		writes.ResourceKinds = []string{"*"}
		if result := compiled(t, "team", nil, writes, other); granted(result)[right] || len(result.Impossible()) > 0 {
			t.Errorf("%v, %v", granted(result), result.Assessments[0].Text())
		}
		writes.ResourceKinds = []string{"rolebindings.rbac.authorization.k8s.io"}
	}
}

// MC-2: in a namespace, a rule about what has none does nothing, there as here.
func TestRulesThatReachNothing(t *testing.T) {
	for _, deny := range []bool{false, true} {
		result := compiled(t, "team", nil, rule{Deny: deny, Verbs: []string{"delete"}, ResourceKinds: []string{"nodes"}, Where: `resource.metadata.name == "a"`})
		if f := result.Assessments[0]; f.Verdict != Exact || len(result.Policies)+len(result.Grants) > 0 {
			t.Errorf("%s: %s", f.Verdict, f.Text())
		}
	}
}

// MC-1: the same policy gives the same bytes, and another condition another name.
func TestNamesSayTheContent(t *testing.T) {
	of := func(name string) string {
		data, err := json.Marshal(compiled(t, "team", nil, rule{Verbs: []string{"create"}, ResourceKinds: []string{"pods", "secrets"}, Where: `resource.metadata.name == "` + name + `"`}))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if first, again := of("a"), of("a"); first != again || first == of("b") {
		t.Error("names do not say the content")
	}
	nameIn := func(r *Result) string { _, n := identityOf(r.Policies[0]); return n }
	a := compiled(t, "team", nil, rule{Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, Where: `resource.metadata.name == "a"`})
	b := compiled(t, "team", nil, rule{Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, Where: `resource.metadata.name == "b"`})
	if nameIn(a) == nameIn(b) {
		t.Error("a policy would be changed in place")
	}
}

// MC-2: what is too large is lost, with the figure.
func TestTooLarge(t *testing.T) {
	var names []string
	for i := range 12_000 {
		names = append(names, fmt.Sprintf("an-object-with-a-name-%d", i))
	}
	result := compiled(t, "team", nil, rule{Verbs: []string{"update"}, ResourceKinds: []string{"pods"}, ResourceNames: names, Where: `resource.metadata.name != ""`})
	if f := result.Assessments[0]; f.Verdict != Impossible || !strings.Contains(f.Text(), "a server takes 100000") || len(result.Grants) > 0 {
		t.Errorf("%s: %s, %d grants", f.Verdict, f.Text(), len(result.Grants))
	}
}

// MC-6: what is missing, changed or left over is found, and defaults of a server are not a change.
func TestDrift(t *testing.T) {
	var all []*unstructured.Unstructured
	result := compiled(t, "team", nil, rule{Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, Where: `resource.metadata.name == "a"`})
	for _, o := range append(result.Policies, result.Grants...) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &unstructured.Unstructured{Object: content})
	}
	if d := Compare(all, all); d.Any() {
		t.Errorf("it differs from itself: %v", d)
	}
	for i := range all {
		without := append(append([]*unstructured.Unstructured{}, all[:i]...), all[i+1:]...)
		if d := Compare(all, without); len(d.Missing) != 1 || d.Missing[0] != Name(all[i]) {
			t.Errorf("%s is missing: %v", Name(all[i]), d)
		}
		if d := Compare(without, all); len(d.Left) != 1 {
			t.Errorf("%s is left: %v", Name(all[i]), d)
		}
		other := all[i].DeepCopy()
		other.Object["extra"] = "x"
		if d := Compare(all, append(without, other)); len(d.Changed) != 1 {
			t.Errorf("%s is changed: %v", Name(all[i]), d)
		}
		other = all[i].DeepCopy()
		other.SetLabels(nil)
		if d := Compare(all, append(without, other)); len(d.Changed) != 1 {
			t.Errorf("%s has lost its label: %v", Name(all[i]), d)
		}
	}
}

// MC-3: those who can switch the policies off are listed.
func TestBreakers(t *testing.T) {
	role := func(name string, verb string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "ClusterRole", "metadata": map[string]any{"name": name},
			"rules": []any{map[string]any{"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{verb}}}}}
	}
	bind := func(name, user string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
			"roleRef": map[string]any{"name": name}, "subjects": []any{map[string]any{"kind": "User", "name": user}}}}
	}
	got := Breakers([]*unstructured.Unstructured{role("reads", "get"), role("deletes", "delete"), bind("reads", "ann"), bind("deletes", "bob")})
	if len(got) != 1 || got[0] != "User bob by ClusterRoleBinding deletes" {
		t.Error(got)
	}
}
