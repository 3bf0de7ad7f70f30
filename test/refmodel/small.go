package refmodel

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// PolicyWorld is a small world in which each role of Policy, in the master namespace and in hammer, is bound to a user
// of its name.
func PolicyWorld(master, hammer map[string][]policyv1alpha1.PolicyRule) *World {
	w := &World{Master: "master", Served: []Resource{{Plural: "pods", Kind: "Pod"}, {Plural: "nodes", Kind: "Node"}, {Plural: "services", Kind: "Service"}, {Plural: "secrets", Kind: "Secret"},
		{Group: "apps", Plural: "deployments", Kind: "Deployment"}, {Group: "x.io", Plural: "gadgets", Kind: "Thing"}, {Group: "authorization.proviso.dev", Plural: "roles", Kind: "Role"}}}
	for ns, roles := range map[string]map[string][]policyv1alpha1.PolicyRule{"master": master, "hammer": hammer} {
		p := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{}}
		b := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for name, rules := range roles {
			p.Roles[name] = policyv1alpha1.PolicyRole{Rules: rules}
			b.RoleBindings[name] = policyv1alpha1.PolicyRoleBinding{RoleName: name, UserNames: []string{name}}
		}
		w.Policies, w.PolicyBindings = append(w.Policies, p), append(w.PolicyBindings, b)
	}
	return w
}
