package ruleset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/test/refmodel"
)

// PA-3: membership is being bound to exactly that role, directly or through a group, here or everywhere.
func TestBound(t *testing.T) {
	ix := Build(Input{
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "release"}}, {ObjectMeta: metav1.ObjectMeta{Name: "twin"}}},
		Roles:        []*rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "release"}}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{
			{ObjectMeta: metav1.ObjectMeta{Name: "a"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "release"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "ops"}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "gone"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "ops"}}}},
		RoleBindings: []*rbacv1.RoleBinding{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "c"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "release"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "edgar"}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "d"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "release"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "bot"}}}},
	})
	policyRole := func(ns, name string) RoleRef { return RoleRef{PolicyRole, ns, name} }
	entry := func(role string, users ...string) map[string]policyv1alpha1.PolicyRoleBinding {
		return map[string]policyv1alpha1.PolicyRoleBinding{role: {RoleName: role, UserNames: users}}
	}
	container := func(ns, of string, roles map[string]policyv1alpha1.PolicyRoleBinding) *policyv1alpha1.PolicyBinding {
		return &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: of}, RoleBindings: roles}
	}
	ofPolicy := Build(Input{
		MasterNamespace: "master",
		Policies: []*policyv1alpha1.Policy{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{"keepers": {}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{"clerks": {}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{
			container("master", "master", entry("keepers", "olga")),
			container("hammer", "master", entry("keepers", "edgar")),
			container("hammer", "hammer", entry("clerks", "clara")),
			container("hammer", "gone", entry("gone", "edgar"))},
	})
	for _, test := range []struct { // PA-15
		name, who string
		role      RoleRef
		ns        string
		want      bool
	}{
		{"in master, everywhere", "olga", policyRole("master", "keepers"), "anvil", true},
		{"in master, cluster-wide", "olga", policyRole("master", "keepers"), "", true},
		{"here", "edgar", policyRole("master", "keepers"), "hammer", true},
		{"elsewhere", "edgar", policyRole("master", "keepers"), "anvil", false},
		{"cluster-wide", "edgar", policyRole("master", "keepers"), "", false},
		{"a role of the namespace", "clara", policyRole("hammer", "clerks"), "hammer", true},
		{"another namespace", "clara", policyRole("hammer", "clerks"), "anvil", false},
		{"a role of that name elsewhere", "clara", policyRole("master", "clerks"), "hammer", false},
		{"a role that does not exist", "edgar", policyRole("gone", "gone"), "hammer", false},
		{"RBAC's of that name", "olga", RoleRef{Kind: ClusterRole, Name: "keepers"}, "hammer", false},
	} {
		if got := ofPolicy.Bound(&user.DefaultInfo{Name: test.who}, test.role, test.ns); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	ops := &user.DefaultInfo{Name: "olga", Groups: []string{"ops"}}
	edgar := &user.DefaultInfo{Name: "edgar"}
	bot := &user.DefaultInfo{Name: "system:serviceaccount:hammer:bot"}
	cluster, local := RoleRef{Kind: ClusterRole, Name: "release"}, RoleRef{Role, "hammer", "release"}
	for _, test := range []struct {
		name string
		who  user.Info
		role RoleRef
		ns   string
		want bool
	}{
		{"group, everywhere", ops, cluster, "anvil", true},
		{"group, cluster-wide", ops, cluster, "", true},
		{"user, here", edgar, cluster, "hammer", true},
		{"user, elsewhere", edgar, cluster, "anvil", false},
		{"user, cluster-wide", edgar, cluster, "", false},
		{"another role of the same name", edgar, local, "hammer", false},
		{"service account", bot, local, "hammer", true},
		{"service account elsewhere", bot, local, "anvil", false},
		{"equal rules are not membership", ops, RoleRef{Kind: ClusterRole, Name: "twin"}, "hammer", false},
		{"a role that does not exist has no members", ops, RoleRef{Kind: ClusterRole, Name: "gone"}, "hammer", false},
		{"nobody", nil, cluster, "hammer", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ix.Bound(test.who, test.role, test.ns); got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// PO-5: the bindings of a role, which stop it from being deleted.
func TestBindingsOf(t *testing.T) {
	w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"view": {allow("get", "*")}}, nil)
	w.PolicyBindings = append(w.PolicyBindings, &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "anvil", Name: "master"},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"v": {RoleName: "view", UserNames: []string{"x"}}}})
	ix := Build(inputOf(w))
	var got []string
	for _, b := range ix.BindingsOf(RoleRef{PolicyRole, "master", "view"}) {
		got = append(got, b.String())
	}
	if want := []string{`RoleBinding "anvil/v"`, `RoleBinding "master/view"`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if ix.BindingsOf(RoleRef{PolicyRole, "hammer", "view"}) != nil {
		t.Error("another role is bound")
	}
}

// PO-2: a kind that is not served matches once it is, and no longer when it is gone; roles that do not mention it are
// not compiled again.
func TestSetKinds(t *testing.T) {
	input := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{
		"alice": {allow("get", "DeploymentConfig")},
		"bob":   {allow("get", "pods")},
	}, nil))
	input.Kinds = nil
	compiled := map[string]int{}
	input.CompileRule = func(r RoleRef, _ int, _ *policyv1alpha1.PolicyRule) (matching.Condition, error) {
		compiled[r.Name]++
		return text("x"), nil
	}
	for _, p := range input.Policies {
		for name := range p.Roles {
			r := p.Roles[name]
			r.Rules = append(r.Rules, policyv1alpha1.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{"secrets"}, When: "x"})
			p.Roles[name] = r
		}
	}
	request := ask("alice", "get", "deploymentconfigs")
	request.APIGroup = "apps.openshift.io"
	before := Build(input)
	after := before.Apply(SetKinds(someKinds))
	gone := after.Apply(SetKinds(matching.NewKinds(nil)))
	for i, test := range []struct {
		ix   *Index
		want Certainty
	}{{before, Never}, {after, Always}, {gone, Never}, {before, Never}} {
		if got := test.ix.Decide(request).Certainty; got != test.want {
			t.Errorf("step %d: %v, want %v", i, got, test.want)
		}
	}
	kept := func(a, b *Index, name string) bool {
		ref := RoleRef{PolicyRole, "master", name}
		return a.role(ref) == b.role(ref)
	}
	if kept(before, after, "alice") || kept(before, after, "bob") {
		// bob mentions pods, which someKinds serves; see below for a role that mentions nothing that changed.
		t.Error("not compiled again for a kind that is mentioned")
	}
	other := after.Apply(SetKinds(matching.NewKinds([]matching.Served{{Resource: "pods", Kind: "Pod", Builtin: true}, {Resource: "nodes", Kind: "Node", Builtin: true}, {Group: "apps", Resource: "deployments", Kind: "Deployment", Builtin: true}, {Group: "apps.openshift.io", Resource: "deploymentconfigs", Kind: "DeploymentConfig"}, {Group: "x.io", Resource: "others", Kind: "Other"}})))
	if !kept(after, other, "alice") || !kept(after, other, "bob") {
		t.Error("compiled again for a kind that nobody mentions")
	}
	if compiled["alice"] != 1 || compiled["bob"] != 1 {
		t.Errorf("conditions were compiled again, although they say nothing about kinds: %v", compiled)
	}
}

// PO-1: what a rule covers now.
func TestCoverage(t *testing.T) {
	rule := policyv1alpha1.PolicyRule{ResourceKinds: []string{"*", "-Pod", "-Gadget"}}
	c := Coverage(&rule, someKinds)
	if got, want := fmt.Sprint(c.Resources), "[nodes deployments.apps deploymentconfigs.apps.openshift.io]"; got != want {
		t.Errorf("covers %s, want %s", got, want)
	}
	if !c.Wildcard || !slices.Equal(c.Unserved, []string{"Gadget"}) || c.Guarded != nil {
		t.Errorf("wildcard %v, unserved %q", c.Wildcard, c.Unserved)
	}
	rule = policyv1alpha1.PolicyRule{ResourceKinds: []string{"Deployment", "pods/exec"}, APIGroups: []string{"apps"}}
	if c := Coverage(&rule, someKinds); fmt.Sprint(c.Resources) != "[deployments.apps]" || c.Wildcard || !slices.Equal(c.Unserved, []string{"pods/exec"}) {
		t.Errorf("%+v", c)
	}
	kinds := matching.NewKinds([]matching.Served{{Group: "certificates.k8s.io", Resource: "requests", Kind: "Request", Builtin: true}})
	rule = policyv1alpha1.PolicyRule{ResourceKinds: []string{"requests", "Request.certificates.k8s.io"}}
	if c := Coverage(&rule, kinds); len(c.Resources) != 1 || !slices.Equal(c.Guarded, []string{"requests"}) || !slices.Equal(c.Unserved, c.Guarded) {
		t.Errorf("an allow rule with a name of a guarded group: %+v", c)
	}
	rule.Deny = true
	if c := Coverage(&rule, kinds); len(c.Resources) != 1 || c.Guarded != nil || c.Unserved != nil {
		t.Errorf("a deny rule with a name of a guarded group: %+v", c)
	}
}

// PO-16: the rules of Policy as a rules review shows them: never more than what is allowed, and marked incomplete.
func TestPolicyRulesFor(t *testing.T) {
	ix := Build(inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{
		"plain":   {allow("update", "deployments.apps"), {Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}},
		"negated": {{Verbs: []string{"get", "-list"}, ResourceKinds: []string{"*", "-secrets", "-roles"}}},
		"denied":  {allow("get", "Pod"), deny("get", "secrets")},
		"maybe":   {{Verbs: []string{"create"}, ResourceKinds: []string{"pods"}, When: "x"}},
	}, nil)))
	for who, want := range map[string]string{
		"plain":   "false [[update patch] [apps] [deployments]] [[get] [/metrics]]",
		"negated": "true [[get] [] [nodes]] [[get] [] [pods]] [[get] [] [services]] [[get] [apps] [deployments]] [[get] [x.io] [gadgets]]",
		"denied":  "true [[get] [] [pods]]",
		"maybe":   "true",
		"nobody":  "false",
	} {
		r := ix.PolicyRulesFor(&user.DefaultInfo{Name: who}, "hammer")
		text := fmt.Sprint(r.Incomplete)
		for _, x := range r.Resources {
			text += fmt.Sprintf(" [%v %v %v]", x.GetVerbs(), x.GetAPIGroups(), x.GetResources())
		}
		for _, x := range r.NonResources {
			text += fmt.Sprintf(" [%v %v]", x.GetVerbs(), x.GetNonResourceURLs())
		}
		if text != want {
			t.Errorf("%s: %s, want %s", who, text, want)
		}
	}
}

// A decision allocates nothing, whoever asks and whatever is found.
func TestDecisionsDoNotAllocate(t *testing.T) {
	input := tenants(1000)
	crb(&input, "user-000001@example.com")
	ix := Build(input)
	for i := range 12 {
		var a authorizer.Attributes = reader(i, "team-a", "team-b")
		if n := testing.AllocsPerRun(100, func() {
			var q Query
			q.Reset(ix, a)
			q.PolicyMaster()
			if m := q.PolicyNamespace(); m.Denies() {
				q.ClusterGrant()
			}
			q.RBAC()
			q.AppendConditional(nil, TierMaster, Denies)
			_ = q.Errors(TierRBAC)
			q.Decide(nil).Allow.Reason()
		}); n != 0 {
			t.Errorf("user %d: %v allocations", i, n)
		}
		u := a.GetUser()
		if n := testing.AllocsPerRun(100, func() { ix.Bound(u, RoleRef{Kind: ClusterRole, Name: "pods"}, "hammer") }); n != 0 {
			t.Errorf("user %d: %v allocations for membership", i, n)
		}
	}
}

// Bad input of every kind is survived, and gives nobody anything.
func FuzzBadRules(f *testing.F) {
	for _, seed := range []string{"", "-", "--", "*", "-*", "/", "a/", "/b", ".", "*.", "*/*", "-*/*", "\x00", "pods/", "é", "*foo", "pods*/x", "-", "pods.a.b.c/d/e"} {
		f.Add(seed, seed, seed, false)
	}
	f.Fuzz(func(t *testing.T, verb, kind, group string, denies bool) {
		rule := policyv1alpha1.PolicyRule{Deny: denies, Verbs: []string{verb}, ResourceKinds: []string{kind}, APIGroups: []string{group}, ResourceNames: []string{group}}
		w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"alice": {rule}}, nil)
		ix := Build(inputOf(w))
		r := ask("alice", strings.TrimPrefix(verb, "-"), kind)
		r.APIGroup, r.Name = group, group
		v := ix.Decide(r)
		if denies && v.Certainty != Never {
			t.Fatalf("a deny rule allows: %+v", rule)
		}
		if v.Certainty == Always && len(ix.Problems()) > 0 {
			t.Fatalf("a rule with problems allows: %v", ix.Problems())
		}
		Coverage(&rule, someKinds)
		ix.PolicyRulesFor(&user.DefaultInfo{Name: "alice"}, "hammer")
	})
}

// PO-9, PO-12: RBAC's * has every verb and names none.
func TestNames(t *testing.T) {
	w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"named": {{Verbs: []string{"*", "escalate"}, ResourceKinds: []string{"*"}}}, "star": {{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}},
		"if": {{Verbs: []string{"escalate"}, ResourceKinds: []string{"*"}, When: "a"}}}, nil)
	for name, verbs := range map[string][]string{"rbac-star": {"*"}, "rbac-named": {"get", "escalate"}} {
		w.ClusterRoles = append(w.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{"*"}, Resources: []string{"*"}}}})
		w.ClusterRoleBindings = append(w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{{Kind: "User", Name: name}}})
	}
	ix := Build(inputOf(w))
	for who, want := range map[string]bool{"named": true, "star": false, "if": false, "rbac-star": false, "rbac-named": true} {
		a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: "escalate", APIGroup: "rbac.authorization.k8s.io", Resource: "clusterroles", ResourceRequest: true}
		if got := ix.Names(a, TierMaster, TierNamespace, TierRBAC); got != want {
			t.Errorf("%s: %v, want %v", who, got, want)
		}
	}
}
