package main

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// viewRole is a role of ordinary size.
func viewRole() *rbacv1.ClusterRole {
	read := []string{"get", "list", "watch"}
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{
		{Verbs: read, APIGroups: []string{""}, Resources: []string{"configmaps", "endpoints", "persistentvolumeclaims", "pods", "services"}},
		{Verbs: read, APIGroups: []string{""}, Resources: []string{"events", "limitranges", "namespaces/status", "pods/log", "pods/status", "resourcequotas"}},
		{Verbs: read, APIGroups: []string{"apps"}, Resources: []string{"daemonsets", "deployments", "deployments/scale", "replicasets", "statefulsets"}},
		{Verbs: read, APIGroups: []string{"batch"}, Resources: []string{"cronjobs", "jobs"}},
	}}
}

// viewKinds are the kinds of viewRole for engines that know kinds and not rules.
func viewKinds() []string {
	var all []string
	for _, rule := range viewRole().Rules {
		for _, r := range rule.Resources {
			all = append(all, rule.APIGroups[0]+"/"+r)
		}
	}
	return all
}

// userBindings is n users who each have one cluster role binding to the same role.
func userBindings(n int) ruleset.Input {
	in := ruleset.Input{MasterNamespace: "master", ClusterRoles: []*rbacv1.ClusterRole{viewRole()}}
	for i := range n {
		in.ClusterRoleBindings = append(in.ClusterRoleBindings, clusterBinding(i, "view"))
	}
	return in
}

// secretBindings is n users who each have a role of their own; a hundred roles are about the same secret.
func secretBindings(n int) ruleset.Input {
	in := ruleset.Input{MasterNamespace: "master"}
	for i := range n {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("role-%06d", i)}, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{fmt.Sprintf("secret-%06d", i/100)}}}}
		in.ClusterRoles = append(in.ClusterRoles, role)
		in.ClusterRoleBindings = append(in.ClusterRoleBindings, clusterBinding(i, role.Name))
	}
	return in
}

func clusterBinding(i int, role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("binding-%06d", i)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: userName(i)}},
	}
}

func userName(i int) string { return fmt.Sprintf("user-%06d@example.com", i) }

// groups are those of the caller; none is bound.
var groups = []string{"system:authenticated", "team-a", "team-b", "team-c"}

// reader is a user with a few groups who asks for one deployment. The server asks with a pointer to a record, too.
func reader(name string) authorizer.Attributes {
	return &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: name, Groups: groups},
		Verb: "get", Namespace: "hammer", APIGroup: "apps", APIVersion: "v1", Resource: "deployments", Name: "web", ResourceRequest: true,
	}
}

// stores are the objects as kube-apiserver's informers hold them.
type stores struct {
	roles               *rbac.RoleGetter
	roleBindings        *rbac.RoleBindingLister
	clusterRoles        *rbac.ClusterRoleGetter
	clusterRoleBindings *rbac.ClusterRoleBindingLister
}

func storesOf(in ruleset.Input) (stores, error) {
	var failed error
	indexer := func() cache.Indexer {
		return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	roles, bindings := indexer(), indexer()
	for _, r := range in.ClusterRoles {
		failed = firstOf(failed, roles.Add(r))
	}
	for _, b := range in.ClusterRoleBindings {
		failed = firstOf(failed, bindings.Add(b))
	}
	return stores{
		roles:               &rbac.RoleGetter{Lister: listers.NewRoleLister(indexer())},
		roleBindings:        &rbac.RoleBindingLister{Lister: listers.NewRoleBindingLister(indexer())},
		clusterRoles:        &rbac.ClusterRoleGetter{Lister: listers.NewClusterRoleLister(roles)},
		clusterRoleBindings: &rbac.ClusterRoleBindingLister{Lister: listers.NewClusterRoleBindingLister(bindings)},
	}, failed
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
