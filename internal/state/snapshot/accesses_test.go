package snapshot

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// TM-9: a server that starts with a rule waits for the roles, however often it looks at what it knows meanwhile.
func TestAccessWaitsForTheRoles(t *testing.T) {
	s := newShelf(AccessRules, AccessRequests, Namespaces)
	s.put(t, AccessRules, &accessv1alpha1.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: "on-call", UID: "1"}, Spec: accessv1alpha1.AccessRuleSpec{
		Subjects: accessv1alpha1.Subjects{UserNames: []string{"alice"}}, RoleRef: accessv1alpha1.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nosuch"}, Namespaces: []string{"prod"}}})
	a, err := NewAccesses(AccessesConfig{Source: s, MasterNamespace: "master"}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	next := &Snapshot{}
	for range 3 {
		if a.Apply(next); next.Access != nil {
			t.Fatal("there is something to ask for before the roles are known")
		}
	}
	next.Rules = ruleset.Build(ruleset.Input{MasterNamespace: "master"})
	a.Apply(next)
	ask := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "alice"}, Verb: "permission-request", APIGroup: accessv1alpha1.GroupName, Resource: "accessrules", Name: "on-call", ResourceRequest: true}
	if _, rule := next.Access.MayAsk(ask); rule == nil {
		t.Error("the rule is not known after the roles are, because its role does not exist")
	}
}
