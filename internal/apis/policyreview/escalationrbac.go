package policyreview

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// everything is what an aggregation rule can gather.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// RBACRole is a Role, or without a namespace a ClusterRole, that is about to be written.
type RBACRole struct {
	Namespace, Name string
	Rules           []rbacv1.PolicyRule
	// Aggregates is true if it aggregates the rules of other roles, or did before.
	Aggregates bool
}

// ConfirmRBACRole: the rules are held, over Policy and RBAC together and with denies applied, or the writer may
// escalate. A user who makes a role aggregate others has to hold everything.
func (e *Escalation) ConfirmRBACRole(ctx context.Context, role RBACRole) error {
	kind := "Role"
	if role.Namespace == "" {
		kind = "ClusterRole"
	}
	w := rbacWrite("roles", role.Namespace, role.Name, rbacv1.RoleRef{Kind: kind, Name: role.Name})
	w.verb, w.rbac = "escalate", role.Rules
	if role.Aggregates {
		w.rbac = everything
	}
	// As in Kubernetes, the verb is asked for the name in the path, which a create does not have.
	w.role.Name = ""
	if info, ok := request.RequestInfoFrom(ctx); ok {
		w.role.Name = info.Name
	}
	return e.confirm(ctx, w)
}

// RBACBinding is a RoleBinding, or without a namespace a ClusterRoleBinding, that is about to be written.
type RBACBinding struct {
	Namespace, Name string
	RoleRef         rbacv1.RoleRef
	Subjects        []rbacv1.Subject
	// Rules reads those of the role.
	Rules func(context.Context) ([]rbacv1.PolicyRule, error)
}

// ConfirmRBACBinding: the rules of the role are held where it is bound, likewise, or the writer may bind it.
func (e *Escalation) ConfirmRBACBinding(ctx context.Context, b RBACBinding) error {
	w := rbacWrite("rolebindings", b.Namespace, b.Name, b.RoleRef)
	w.verb, w.load = "bind", b.Rules
	for _, s := range b.Subjects {
		w.grantees = append(w.grantees, granteeOf(s, b.Namespace))
	}
	return e.confirm(ctx, w)
}

// granteeOf is a subject of RBAC as the index knows it.
func granteeOf(s rbacv1.Subject, namespace string) ruleset.Subject {
	switch s.Kind {
	case rbacv1.GroupKind:
		return ruleset.Subject{Group: true, Name: s.Name}
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return ruleset.Subject{Name: serviceaccount.MakeUsername(namespace, s.Name)}
	}
	return ruleset.Subject{Name: s.Name}
}

// rbacWrite is a write of an object of RBAC; ref is the role that it is, or that it binds.
func rbacWrite(resource, namespace, name string, ref rbacv1.RoleRef) write {
	if namespace == "" {
		resource = "cluster" + resource
	}
	w := write{
		resource: rbacv1.Resource(resource), name: name, namespace: namespace, ref: ruleset.RoleRef{Kind: ruleset.ClusterRole, Name: ref.Name},
		role: authorizer.AttributesRecord{Namespace: namespace, APIGroup: rbacv1.GroupName, APIVersion: "*", Resource: "clusterroles", Name: ref.Name, ResourceRequest: true},
	}
	if ref.Kind == "Role" {
		w.ref = ruleset.RoleRef{Kind: ruleset.Role, Namespace: namespace, Name: ref.Name}
		w.role.Resource = "roles"
	}
	return w
}
