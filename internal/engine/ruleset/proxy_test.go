package ruleset

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/refmodel"
)

// PO-20: a deny by name sees the object that a proxy request is about, however the URL spells it; an allow and RBAC
// mean what they say.
func TestNamesInProxies(t *testing.T) {
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
	ix := Build(inputOf(w))
	proxy := func(who, sub, name string) authorizer.AttributesRecord {
		a := in("hammer", who, "get", "services")
		a.Subresource, a.Name = sub, name
		return a
	}
	for _, test := range []struct {
		request authorizer.AttributesRecord
		want    Certainty
	}{
		{proxy("edgar", "proxy", "admin"), Never},
		{proxy("edgar", "proxy", "admin:80"), Never},
		{proxy("edgar", "proxy", "http:admin:80"), Never},
		{proxy("edgar", "proxy", "https:admin:"), Never},
		{proxy("edgar", "proxy", ":admin:80"), Never},
		{proxy("edgar", "proxy", "http:web:80"), Always},
		{proxy("edgar", "", "admin"), Always},
		{proxy("porter", "proxy", "admin"), Never}, // the same service, by another spelling than the rule's
		{proxy("porter", "proxy", "admin:80"), Never},
		{proxy("porter", "proxy", "web"), Always},
		{proxy("named", "proxy", "admin"), Always},
		{proxy("named", "proxy", "admin:8080"), Never}, // an allow by name is not one for every port
		{proxy("plain", "proxy", "b:1"), Always},
		{proxy("plain", "proxy", "b"), Never},
		{proxy("rbacca", "proxy", "a:1"), Always},
		{proxy("rbacca", "proxy", "b:1"), Never},
	} {
		if got := ix.Decide(test.request).Certainty; got != test.want {
			t.Errorf("%s %q: %v, want %v", test.request.User.GetName(), test.request.Name, got, test.want)
		}
		// PO-14: who-can agrees.
		found := false
		ix.Everyone(test.request, func(h Hit) {
			found = found || h.Effect() == Denies && h.Subject().Name == test.request.User.GetName()
		})
		if denied := ix.Decide(test.request).Deny.Found(); found != denied {
			t.Errorf("%s %q: listed as denied: %v, want %v", test.request.User.GetName(), test.request.Name, found, denied)
		}
	}
}
