package ruleset

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestSmoke(t *testing.T) {
	ix := Build(Input{MasterNamespace: "master",
		ClusterRoles:        []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "u"}}}},
	})
	m := ix.RBAC(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "u"}, Verb: "get", Resource: "pods", ResourceRequest: true})
	if m.Allow.Reason() != `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "view" to User "u"` {
		t.Fatal(m.Allow.Reason())
	}
}
