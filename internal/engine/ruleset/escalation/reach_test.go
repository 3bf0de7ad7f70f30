package escalation

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/test/refmodel"
)

// PO-12, PO-20: what a deny of delete takes cannot be granted, whatever the grant is called.
func TestDenyOfDeleteReachesGrants(t *testing.T) {
	ix := ruleset.Build(inputOf(refmodel.PolicyWorld(nil, map[string][]policyv1alpha1.PolicyRule{
		"denied": {allow("*", "*"), {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}}},
		"some":   {allow("*", "*"), {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"Pod"}, When: "a"}},
		"nodes":  {allow("*", "*"), {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"nodes"}}},
	})))
	for _, test := range []struct {
		who  string
		rule policyv1alpha1.PolicyRule
		held bool
	}{
		{"denied", allow("create", "pods/eviction"), false}, {"some", allow("create", "pods/eviction"), false},
		{"denied", policyv1alpha1.PolicyRule{Verbs: []string{"bind", "create"}, ResourceKinds: []string{"pods/*"}}, false},
		{"denied", allow("create", "*"), false}, {"denied", allow("create", "pods"), true}, {"denied", allow("create", "pods/binding"), true},
		{"nodes", allow("create", "pods/eviction"), true},
	} {
		err := Covers(ix, Grant{User: &user.DefaultInfo{Name: test.who}, Namespace: "hammer", Policy: rules{test.rule}})
		if held := err == nil; held != test.held {
			t.Errorf("%s grants %v of %v: held %v, want %v (%v)", test.who, test.rule.Verbs, test.rule.ResourceKinds, held, test.held, err)
		}
	}
}

// PO-12, PO-20: what is denied under one spelling of a proxy is not held under another.
func TestSpellingsOfProxiesInGrants(t *testing.T) {
	w := refmodel.PolicyWorld(nil, map[string][]policyv1alpha1.PolicyRule{
		"edgar":  {{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}, {Deny: true, Verbs: []string{"proxy"}, ResourceKinds: []string{"services"}, ResourceNames: []string{"admin"}}},
		"porter": {{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}, {Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"services/proxy"}, ResourceNames: []string{"https:admin:"}}},
		"named":  {{Verbs: []string{"proxy"}, ResourceKinds: []string{"services"}, ResourceNames: []string{"admin"}}},
		"rbacca": {{Deny: true, Verbs: []string{"*"}, ResourceKinds: []string{"services/proxy"}, ResourceNames: []string{"b"}}},
	})
	w.Roles = []*rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "proxies"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"services/proxy"}, ResourceNames: []string{"a:1", "b:1"}}}}}
	w.RoleBindings = []*rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "proxies"},
		RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "proxies"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "rbacca"}, {Kind: "User", Name: "plain"}}}}
	ix := ruleset.Build(inputOf(w))
	for _, test := range []struct {
		who, name string
		held      bool
	}{
		{"edgar", "http:admin:80", false}, {"edgar", "admin", false}, {"edgar", "http:web:80", true},
		{"rbacca", "a:1", true}, {"rbacca", "b:1", false},
	} {
		err := Covers(ix, Grant{User: &user.DefaultInfo{Name: test.who}, Namespace: "hammer", RBAC: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"services/proxy"}, ResourceNames: []string{test.name}}}})
		if held := err == nil; held != test.held {
			t.Errorf("%s grants a proxy to %q: held %v, want %v (%v)", test.who, test.name, held, test.held, err)
		}
	}
	both := Grant{User: &user.DefaultInfo{Name: "rbacca"}, Namespace: "hammer", RBAC: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"services/proxy"}, ResourceNames: []string{"a:1", "b:1"}}}}
	if Covers(ix, both) == nil {
		t.Error("one of two names is denied, and the grant of both passed")
	}
}
