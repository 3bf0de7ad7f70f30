package policyreview

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// accountPrefix begins the user name of a service account.
const accountPrefix = "system:serviceaccount:"

func roleOf(r ruleset.RoleRef) authz.TracedObject {
	out := authz.TracedObject{APIGroup: rbacv1.GroupName, Kind: "Role", Namespace: r.Namespace, Name: r.Name}
	switch r.Kind {
	case ruleset.PolicyRole:
		out.APIGroup = authz.GroupName
	case ruleset.ClusterRole:
		out.Kind = "ClusterRole"
	}
	return out
}

// refOf is the role that a trace names.
func refOf(o authz.TracedObject) ruleset.RoleRef {
	kind := ruleset.Role
	switch {
	case o.APIGroup == authz.GroupName:
		kind = ruleset.PolicyRole
	case o.Kind == "ClusterRole":
		kind = ruleset.ClusterRole
	}
	return ruleset.RoleRef{Kind: kind, Namespace: o.Namespace, Name: o.Name}
}

func bindingOf(b ruleset.BindingRef) authz.TracedObject {
	out := authz.TracedObject{APIGroup: rbacv1.GroupName, Kind: "RoleBinding", Namespace: b.Namespace, Name: b.Name}
	switch b.Kind {
	case ruleset.PolicyRoleBinding:
		out.APIGroup = authz.GroupName
	case ruleset.ClusterRoleBinding:
		out.Kind = "ClusterRoleBinding"
	}
	return out
}

func subjectOf(s ruleset.Subject) authz.TracedSubject {
	if s.Group {
		return authz.TracedSubject{Kind: rbacv1.GroupKind, Name: s.Name}
	}
	if rest, ok := strings.CutPrefix(s.Name, accountPrefix); ok {
		if namespace, name, ok := strings.Cut(rest, ":"); ok {
			return authz.TracedSubject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
		}
	}
	return authz.TracedSubject{Kind: rbacv1.UserKind, Name: s.Name}
}
