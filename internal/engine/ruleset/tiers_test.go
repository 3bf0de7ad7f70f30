package ruleset

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/refmodel"
)

func allow(verb, kind string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{Verbs: []string{verb}, ResourceKinds: []string{kind}}
}

func deny(verb, kind string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{verb}, ResourceKinds: []string{kind}, Description: "not this"}
}

func in(ns, who, verb, resource string) authorizer.AttributesRecord {
	r := ask(who, verb, resource)
	r.Namespace = ns
	return r
}

// crb binds users to a cluster role that may do everything with pods.
func crb(in *Input, users ...string) {
	in.ClusterRoles = append(in.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}}}})
	b := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "pods"}}
	for _, u := range users {
		b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "User", Name: u})
	}
	in.ClusterRoleBindings = append(in.ClusterRoleBindings, b)
}

// PO-7: the order of the tiers, and to whom a namespace deny yields.
func TestTiers(t *testing.T) {
	input := inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{
		"clark":  {allow("*", "*")},
		"ursula": {deny("delete", "pods"), allow("*", "*")},
	}, map[string][]policyv1alpha1.PolicyRule{
		"clark":      {deny("*", "*")},
		"edgar":      {allow("*", "pods"), deny("delete", "pods")},
		"controller": {deny("*", "*")},
		"local":      {deny("*", "*")},
	}))
	crb(&input, "controller", "ursula")
	input.Roles = []*rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "pods"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}}
	input.RoleBindings = []*rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "pods"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "pods"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "local"}}}}
	ix := Build(input)
	for _, test := range []struct {
		name    string
		request authorizer.AttributesRecord
		want    Certainty
	}{
		{"master allow beats namespace deny", in("hammer", "clark", "get", "pods"), Always},
		{"master deny beats master allow and a cluster role binding", in("hammer", "ursula", "delete", "pods"), Never},
		{"master allow beside the deny", in("hammer", "ursula", "get", "pods"), Always},
		{"namespace deny beats namespace allow", in("hammer", "edgar", "delete", "pods"), Never},
		{"namespace allow", in("hammer", "edgar", "get", "pods"), Always},
		{"namespace allow elsewhere", in("anvil", "edgar", "get", "pods"), Never},
		{"namespace allow cluster-wide", in("", "edgar", "get", "pods"), Never},
		{"namespace deny yields to a cluster role binding", in("hammer", "controller", "get", "pods"), Always},
		{"namespace deny stands where nothing is granted cluster-wide", in("hammer", "controller", "get", "secrets"), Never},
		{"namespace deny does not yield to a role binding", in("hammer", "local", "get", "pods"), Never},
		{"nobody", in("hammer", "nobody", "get", "pods"), Never},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ix.Decide(test.request).Certainty; got != test.want {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}

// PO-8: both reasons are there, each naming rule, binding, role and subject.
func TestBothReasons(t *testing.T) {
	ix := Build(inputOf(refmodel.PolicyWorld(nil, map[string][]policyv1alpha1.PolicyRule{"edgar": {allow("*", "pods"), deny("delete", "pods")}})))
	m := ix.PolicyNamespace(in("hammer", "edgar", "delete", "pods"))
	if got, want := m.Allow.Reason(), `Policy: allowed by RoleBinding "hammer/edgar" of Role "hammer/edgar" to User "edgar", rule 0`; got != want {
		t.Errorf("allow reason %q, want %q", got, want)
	}
	if got, want := m.Deny.Reason(), `Policy: denied by RoleBinding "hammer/edgar" of Role "hammer/edgar" to User "edgar", rule 1: not this`; got != want {
		t.Errorf("deny reason %q, want %q", got, want)
	}
	if r := ix.PolicyNamespace(in("hammer", "edgar", "get", "secrets")).Allow.Reason(); r != "" {
		t.Errorf("reason without a rule: %q", r)
	}
}

// PO-19: reasons in upstream's words.
func TestRBACReasons(t *testing.T) {
	role := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	ix := Build(Input{
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: role}},
		Roles:        []*rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "local"}, Rules: role}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{Kind: "Group", Name: "team-a"}, {Kind: "User", Name: "alice"}}}},
		RoleBindings: []*rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "some"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "local"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "bot"}}}},
	})
	for who, want := range map[string]string{
		"alice":                            `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "view" to User "alice"`,
		"system:serviceaccount:hammer:bot": `RBAC: allowed by RoleBinding "some/hammer" of Role "local" to ServiceAccount "bot/hammer"`,
	} {
		if got := ix.RBAC(in("hammer", who, "get", "pods")).Allow.Reason(); got != want {
			t.Errorf("%s: %q, want %q", who, got, want)
		}
	}
	r := in("", "x", "get", "pods")
	r.User = &user.DefaultInfo{Name: "x", Groups: []string{"team-a"}}
	if got, want := ix.RBAC(r).Allow.Reason(), `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "view" to Group "team-a"`; got != want {
		t.Errorf("group: %q, want %q", got, want)
	}
}

// PO-5: a binding whose role is missing grants nothing, is named in an error, and leaves all others alone; when the
// role appears it takes effect.
func TestMissingRole(t *testing.T) {
	w := refmodel.PolicyWorld(nil, map[string][]policyv1alpha1.PolicyRule{"edgar": {allow("get", "pods")}})
	for _, b := range w.PolicyBindings {
		if b.Namespace == "hammer" {
			b.RoleBindings["gone"] = policyv1alpha1.PolicyRoleBinding{RoleName: "gone", UserNames: []string{"edgar"}}
			other := b.DeepCopy()
			other.Name, other.RoleBindings = "anvil", map[string]policyv1alpha1.PolicyRoleBinding{"third": {RoleName: "edgar", UserNames: []string{"edgar"}}}
			w.PolicyBindings = append(w.PolicyBindings, other)
		}
	}
	ix := Build(inputOf(w))
	var q Query
	q.Reset(ix, in("hammer", "edgar", "get", "pods"))
	if m := q.PolicyNamespace(); !m.Allow.Found() {
		t.Error("the other binding does not hold")
	}
	q.Reset(ix, in("hammer", "edgar", "list", "pods"))
	err := q.Errors(TierNamespace)
	if err == nil || !strings.Contains(err.Error(), `RoleBinding "hammer/gone" grants nothing: Role "hammer/gone" does not exist`) ||
		!strings.Contains(err.Error(), `RoleBinding "hammer/third" grants nothing: a role of namespace "anvil" cannot be bound here`) {
		t.Errorf("errors %v", err)
	}
	if n := len(ix.Problems()); n != 2 {
		t.Errorf("%d problems: %v", n, ix.Problems())
	}
	q.Reset(ix, in("hammer", "nobody", "list", "pods"))
	if err := q.Errors(TierNamespace); err != nil {
		t.Errorf("somebody who has nothing to do with it: %v", err)
	}
	p := w.Policies[0]
	if p.Namespace != "hammer" {
		p = w.Policies[1]
	}
	p = p.DeepCopy()
	p.Roles["gone"] = policyv1alpha1.PolicyRole{Rules: []policyv1alpha1.PolicyRule{allow("list", "pods")}}
	if got := ix.Apply(Put(p)).Decide(in("hammer", "edgar", "list", "pods")).Certainty; got != Always {
		t.Errorf("after the role appeared: %v", got)
	}
}

// SV-8: quarantine by example: each broken rule alone, in the safe direction, and reported.
func TestQuarantine(t *testing.T) {
	broken := func(r policyv1alpha1.PolicyRule) policyv1alpha1.PolicyRule {
		r.When = "BROKEN"
		return r
	}
	ix := Build(inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{
		"alice": {broken(allow("get", "pods")), allow("list", "pods"), broken(deny("delete", "pods")), allow("delete", "*")},
		"bob":   {{Verbs: []string{"get"}, ResourceKinds: []string{"*", "-pod*"}}, {Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"secret*"}, When: "a"}, allow("list", "*")},
		"carl":  {{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}, AttributeRestrictions: &policyv1alpha1.AttributeRestrictions{Unrecognized: map[string]runtime.RawExtension{"x": {}}}}},
	}, nil)))
	for _, test := range []struct {
		who, verb, resource string
		want                Certainty
	}{
		{"alice", "get", "pods", Never}, {"alice", "list", "pods", Always}, {"alice", "delete", "pods", Never}, {"alice", "delete", "secrets", Always},
		{"bob", "get", "secrets", Never}, {"bob", "list", "secrets", Always}, {"carl", "get", "pods", Never},
	} {
		if got := ix.Decide(ask(test.who, test.verb, test.resource)).Certainty; got != test.want {
			t.Errorf("%s %s %s: %v, want %v", test.who, test.verb, test.resource, got, test.want)
		}
	}
	if n := len(ix.Problems()); n != 5 {
		t.Errorf("%d problems, want 5: %v", n, ix.Problems())
	}
	if m := ix.PolicyMaster(ask("bob", "get", "nodes")); !m.Deny.Found() {
		t.Error("a deny rule whose kinds cannot be read denies nothing")
	}
	if got := ix.Problems()[0].Error(); got != `Role "master/alice": rule 0: when: syntax error; the rule grants nothing until it is corrected` {
		t.Errorf("problem %q", got)
	}
}

// PO-6: non-resource requests are decided in the master namespace only.
func TestNonResource(t *testing.T) {
	urls := policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics", "/debug/*"}}
	ix := Build(inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"alice": {urls}, "star": {allow("*", "*")}}, map[string][]policyv1alpha1.PolicyRule{"bob": {urls}})))
	for _, test := range []struct {
		who, verb, path string
		want            Certainty
	}{
		{"alice", "get", "/metrics", Always}, {"alice", "get", "/metrics/x", Never}, {"alice", "get", "/debug/pprof", Always},
		{"alice", "get", "/debug", Never}, {"alice", "post", "/metrics", Never}, {"star", "get", "/metrics", Never}, {"bob", "get", "/metrics", Never},
	} {
		r := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: test.who}, Verb: test.verb, Path: test.path}
		if got := ix.Decide(r).Certainty; got != test.want {
			t.Errorf("%s %s %s: %v, want %v", test.who, test.verb, test.path, got, test.want)
		}
	}
}

// A reason that has been given before does not outlive what it was about.
func TestReasonsAreNotStale(t *testing.T) {
	w := refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"alice": {{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}, Description: "old"}, allow("list", "pods")}}, nil)
	ix := Build(inputOf(w))
	old := ix.PolicyMaster(ask("alice", "get", "pods")).Allow.Reason()
	list := ix.PolicyMaster(ask("alice", "list", "pods")).Allow.Reason()
	p := w.Policies[0]
	if p.Namespace != "master" {
		p = w.Policies[1]
	}
	p = p.DeepCopy()
	p.Roles["alice"].Rules[0].Description = "new"
	next := ix.Apply(Put(p)).PolicyMaster(ask("alice", "get", "pods")).Allow.Reason()
	if !strings.HasSuffix(old, "rule 0: old") || !strings.HasSuffix(list, "rule 1") || !strings.HasSuffix(next, "rule 0: new") {
		t.Errorf("reasons %q, %q, %q", old, list, next)
	}
	if again := ix.PolicyMaster(ask("alice", "get", "pods")).Allow.Reason(); again != old {
		t.Errorf("the old index says %q", again)
	}
}

// Readers and a writer of the next index do not disturb each other.
func TestConcurrentUse(t *testing.T) {
	input := tenants(200)
	ix := Build(input)
	done := make(chan bool)
	for i := range 4 {
		go func() {
			for j := range 200 {
				ix.Decide(reader(i*j, "team-a")).Allow.Reason()
			}
			done <- true
		}()
	}
	next := ix
	for i := range 50 {
		c := input.PolicyBindings[i%len(input.PolicyBindings)].DeepCopy()
		c.RoleBindings["more"] = policyv1alpha1.PolicyRoleBinding{RoleName: "view", UserNames: []string{"more"}}
		next = next.Apply(Put(c))
	}
	for range 4 {
		<-done
	}
	if next.Bindings() <= ix.Bindings() {
		t.Errorf("%d bindings after adding to %d", next.Bindings(), ix.Bindings())
	}
}
