package protectedattr

import (
	"cmp"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// unknownAttribute stands for an attributeKind that validation should have refused; New reports it.
const unknownAttribute = Attribute(0xff)

// FromCluster converts a stored ClusterProtectedAttribute.
func FromCluster(a *policyv1alpha1.ClusterProtectedAttribute) Protection {
	return Protection{
		Name:       a.Name,
		Attribute:  attributeOf(a.AttributeKind),
		Key:        keyOf(a.AttributeName),
		Values:     a.ProtectedValues,
		Closed:     closed(a.UnlistedValues),
		Resources:  a.Resources,
		Role:       roleOf(a.RoleRef, ""),
		ObjectOnly: a.Scope == policyv1alpha1.ScopeObjectOnly,
	}
}

// FromNamespaced converts a stored ProtectedAttribute.
func FromNamespaced(a *policyv1alpha1.ProtectedAttribute) Protection {
	return Protection{
		Name:       a.Name,
		Namespace:  a.Namespace,
		Attribute:  attributeOf(a.AttributeKind),
		Key:        keyOf(a.AttributeName),
		Values:     a.ProtectedValues,
		Closed:     closed(a.UnlistedValues),
		Resources:  a.Resources,
		Role:       roleOf(a.RoleRef, a.Namespace),
		ObjectOnly: a.Scope == policyv1alpha1.ScopeObjectOnly,
	}
}

// keyOf treats a pattern that validation should have refused as unreadable: it may mean any key.
func keyOf(name string) string {
	if strings.Contains(name, "*") && domainOf(name) == "" {
		return ""
	}
	return name
}

// closed returns true for everything except the setting that frees unlisted values.
func closed(v policyv1alpha1.UnlistedValues) bool {
	return v != "" && v != policyv1alpha1.UnlistedFree
}

func attributeOf(kind policyv1alpha1.AttributeKind) Attribute {
	switch kind {
	case policyv1alpha1.AttributeLabel:
		return Label
	case policyv1alpha1.AttributeAnnotation:
		return Annotation
	}
	return unknownAttribute
}

// roleOf gives a Role the namespace of its protection. A cluster-wide protection that names a Role, or an invalid
// reference, becomes a role to which no user can be bound: it protects and has no members.
func roleOf(ref policyv1alpha1.RoleReference, namespace string) Role {
	group := cmp.Or(ref.APIGroup, policyv1alpha1.RoleAPIGroup)
	switch {
	case group == policyv1alpha1.PolicyRoleAPIGroup && ref.Kind == KindRole:
		return Role{Kind: KindPolicyRole, Namespace: cmp.Or(ref.Namespace, namespace), Name: ref.Name}
	case group != policyv1alpha1.RoleAPIGroup:
		return Role{Kind: group + " " + ref.Kind, Name: ref.Name}
	case ref.Kind == KindRole && (ref.Namespace == "" || ref.Namespace == namespace):
		return Role{Kind: KindRole, Namespace: namespace, Name: ref.Name}
	case ref.Kind == KindClusterRole:
		return Role{Kind: KindClusterRole, Namespace: ref.Namespace, Name: ref.Name}
	}
	return Role{Kind: ref.Kind, Name: ref.Name}
}
