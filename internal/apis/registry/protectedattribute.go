package registry

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
)

func protectedAttributeKind(roles Roles) *kind[*policy.ProtectedAttribute] {
	type T = *policy.ProtectedAttribute
	return &kind[T]{
		version: policy.SchemeGroupVersion, plural: "protectedattributes", singular: "protectedattribute", shortNames: []string{"pattr"}, namespaced: true,
		newObject: func() T { return &policy.ProtectedAttribute{} },
		newList:   func() runtime.Object { return &policy.ProtectedAttributeList{} },
		columns: protectionColumns(func(a T) shown {
			return shown{a.AttributeKind, a.AttributeName, a.RoleRef, a.ProtectedValues, a.Resources, a.Scope, a.Status}
		}),
		prepare:  func(_, _ T) {},
		validate: func(_ context.Context, a, old T) field.ErrorList { return validate.ProtectedAttribute(a, old) },
		warn: func(ctx context.Context, a, old T) []string {
			var warnings []string
			if old == nil || len(old.ProtectedValues) == 0 || old.UnlistedValues != a.UnlistedValues {
				warnings = freeValues(a.ProtectedValues, a.UnlistedValues)
			}
			if old != nil && a.RoleRef == old.RoleRef {
				return warnings
			}
			return append(warnings, missingRole(ctx, roles, a.RoleRef, a.Namespace)...)
		},
		sameContent: func(a, b T) bool {
			return a.AttributeKind == b.AttributeKind && a.AttributeName == b.AttributeName && a.RoleRef == b.RoleRef &&
				a.Scope == b.Scope && equality.Semantic.DeepEqual(a.ProtectedValues, b.ProtectedValues) &&
				a.UnlistedValues == b.UnlistedValues && equality.Semantic.DeepEqual(a.Resources, b.Resources)
		},
		contentFields: protectionFields(),
		copyContent: func(to, from T) {
			to.AttributeKind, to.AttributeName, to.RoleRef = from.AttributeKind, from.AttributeName, from.RoleRef
			to.ProtectedValues, to.Scope = from.ProtectedValues, from.Scope
			to.UnlistedValues, to.Resources = from.UnlistedValues, from.Resources
		},
		copyStatus: func(to, from T) { to.Status = from.Status },
		ends:       func(a T) string { return unprotected(a.AttributeKind, a.AttributeName) },
	}
}

func clusterProtectedAttributeKind(roles Roles) *kind[*policy.ClusterProtectedAttribute] {
	type T = *policy.ClusterProtectedAttribute
	return &kind[T]{
		version: policy.SchemeGroupVersion, plural: "clusterprotectedattributes", singular: "clusterprotectedattribute", shortNames: []string{"cpattr"},
		newObject: func() T { return &policy.ClusterProtectedAttribute{} },
		newList:   func() runtime.Object { return &policy.ClusterProtectedAttributeList{} },
		columns: protectionColumns(func(a T) shown {
			return shown{a.AttributeKind, a.AttributeName, a.RoleRef, a.ProtectedValues, a.Resources, a.Scope, a.Status}
		}),
		prepare:  func(_, _ T) {},
		validate: func(_ context.Context, a, old T) field.ErrorList { return validate.ClusterProtectedAttribute(a, old) },
		warn: func(ctx context.Context, a, old T) []string {
			var warnings []string
			if old == nil || len(old.ProtectedValues) == 0 || old.UnlistedValues != a.UnlistedValues {
				warnings = freeValues(a.ProtectedValues, a.UnlistedValues)
			}
			if old != nil && a.RoleRef == old.RoleRef {
				return warnings
			}
			return append(warnings, missingRole(ctx, roles, a.RoleRef, "")...)
		},
		sameContent: func(a, b T) bool {
			return a.AttributeKind == b.AttributeKind && a.AttributeName == b.AttributeName && a.RoleRef == b.RoleRef &&
				a.Scope == b.Scope && equality.Semantic.DeepEqual(a.ProtectedValues, b.ProtectedValues) &&
				a.UnlistedValues == b.UnlistedValues && equality.Semantic.DeepEqual(a.Resources, b.Resources)
		},
		contentFields: protectionFields(),
		copyContent: func(to, from T) {
			to.AttributeKind, to.AttributeName, to.RoleRef = from.AttributeKind, from.AttributeName, from.RoleRef
			to.ProtectedValues, to.Scope = from.ProtectedValues, from.Scope
			to.UnlistedValues, to.Resources = from.UnlistedValues, from.Resources
		},
		copyStatus: func(to, from T) { to.Status = from.Status },
		ends:       func(a T) string { return unprotected(a.AttributeKind, a.AttributeName) },
	}
}

// unprotected says what the end of a protection means.
func unprotected(kind policy.AttributeKind, name string) string {
	return fmt.Sprintf("%s %q is no longer protected here: unless another protection covers it, everybody who may write an object can set it", strings.ToLower(string(kind)), name)
}

func protectionFields() []string {
	return []string{"attributeKind", "attributeName", "roleRef", "protectedValues", "unlistedValues", "resources", "scope"}
}

// shown is what both kinds of protection show in a table.
type shown struct {
	kind      policy.AttributeKind
	name      string
	role      policy.RoleReference
	values    []string
	resources []string
	scope     policy.ProtectionScope
	status    policy.ProtectedAttributeStatus
}

func protectionColumns[T object](of func(T) shown) []column[T] {
	return []column[T]{
		{name: "Kind", description: "Label or annotation.", cell: func(a T) any { return string(of(a).kind) }},
		{name: "Attribute", description: "The key that is protected.", cell: func(a T) any { return of(a).name }},
		{name: "Values", description: "The values that are protected.", cell: func(a T) any {
			if values := of(a).values; len(values) > 0 {
				return strings.Join(values, ",")
			}
			return "<all>"
		}},
		{name: "Role", description: "The role whose members can set it.", cell: func(a T) any { return of(a).role.Kind + "/" + of(a).role.Name }},
		{name: "Resources", wide: true, description: "The resources on which it is protected.", cell: func(a T) any {
			if resources := of(a).resources; len(resources) > 0 {
				return strings.Join(resources, ",")
			}
			return "<all>"
		}},
		{name: "Scope", wide: true, description: "How far the protection reaches.", cell: func(a T) any { return string(of(a).scope) }},
		{name: "Resolved", wide: true, description: "Whether the role exists.",
			cell: func(a T) any { return conditionCell(of(a).status.Conditions, policy.ConditionRolesResolved) }},
	}
}

// freeValues warns that values which are not listed are not protected (PA-14).
func freeValues(values []string, unlisted policy.UnlistedValues) []string {
	if len(values) == 0 || unlisted == policy.UnlistedForbidden {
		return nil
	}
	return []string{"protectedValues: everybody who may write an object can set values that are not listed; to forbid them, write unlistedValues: Forbidden"}
}

// missingRole warns about a role that does not exist. The protection holds all the same: nobody is a member yet.
func missingRole(ctx context.Context, roles Roles, ref policy.RoleReference, namespace string) []string {
	ok, err := roles.RoleExists(ctx, ref.Kind, namespace, ref.Name)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("roleRef: cannot tell whether %s %q exists; until it does, only system:masters can set the attribute", ref.Kind, ref.Name)}
	case !ok:
		return []string{fmt.Sprintf("roleRef: %s %q does not exist; until it does, only system:masters can set the attribute", ref.Kind, ref.Name)}
	}
	return nil
}
