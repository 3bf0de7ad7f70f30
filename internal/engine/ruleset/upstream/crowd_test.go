package upstream_test

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/test/refmodel"
)

// crowd is a world in which a few subjects have n cluster roles and n local ones, most of which are about something
// else.
func crowd(pick refmodel.Pick, n int) *refmodel.World {
	w := &refmodel.World{Master: "master"}
	for i := range n {
		name := fmt.Sprint("role-", i)
		rule := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{fmt.Sprint("thing-", i)}}
		if pick(8) == 0 {
			rule = pick.RBACRule()
		}
		subject := rbacv1.Subject{Kind: "User", Name: "alice"}
		if pick(3) == 0 {
			subject = rbacv1.Subject{Kind: "Group", Name: fmt.Sprint("group-", pick(40))}
		}
		w.ClusterRoles = append(w.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}})
		w.Roles = append(w.Roles, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "hammer"}, Rules: []rbacv1.PolicyRule{pick.RBACRule()}})
		w.ClusterRoleBindings = append(w.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{subject}})
		w.RoleBindings = append(w.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "hammer"},
			RoleRef: rbacv1.RoleRef{Kind: []string{"Role", "ClusterRole"}[pick(2)], Name: name}, Subjects: []rbacv1.Subject{subject}})
	}
	return w
}

func manyGroups(pick refmodel.Pick) (groups []string) {
	for range pick(40) {
		groups = append(groups, fmt.Sprint("group-", pick(40)))
	}
	return groups
}
