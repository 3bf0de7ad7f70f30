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
	"proviso.dev/proviso/internal/engine/protectedattr"
)

func protectedAttributeKind(env *protections) *kind[*policy.ProtectedAttribute] {
	type T = *policy.ProtectedAttribute
	return &kind[T]{
		version: policy.SchemeGroupVersion, plural: "protectedattributes", singular: "protectedattribute", shortNames: []string{"pattr"}, namespaced: true,
		newObject: func() T { return &policy.ProtectedAttribute{} },
		newList:   func() runtime.Object { return &policy.ProtectedAttributeList{} },
		columns: protectionColumns(func(a T) shown {
			return shown{a.AttributeKind, a.AttributeName, a.RoleRef, a.ProtectedValues, a.Resources, a.Scope, a.Status}
		}),
		prepare: func(_, _ T) {},
		validate: func(_ context.Context, a, old T) field.ErrorList {
			return validate.ProtectedAttribute(a, old, env.master)
		},
		warn: func(ctx context.Context, a, old T) []string {
			if old == nil {
				return env.warnings(ctx, protectedattr.FromNamespaced(a), nil)
			}
			was := protectedattr.FromNamespaced(old)
			return env.warnings(ctx, protectedattr.FromNamespaced(a), &was)
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

func clusterProtectedAttributeKind(env *protections) *kind[*policy.ClusterProtectedAttribute] {
	type T = *policy.ClusterProtectedAttribute
	return &kind[T]{
		version: policy.SchemeGroupVersion, plural: "clusterprotectedattributes", singular: "clusterprotectedattribute", shortNames: []string{"cpattr"},
		newObject: func() T { return &policy.ClusterProtectedAttribute{} },
		newList:   func() runtime.Object { return &policy.ClusterProtectedAttributeList{} },
		columns: protectionColumns(func(a T) shown {
			return shown{a.AttributeKind, a.AttributeName, a.RoleRef, a.ProtectedValues, a.Resources, a.Scope, a.Status}
		}),
		prepare: func(_, _ T) {},
		validate: func(_ context.Context, a, old T) field.ErrorList {
			return validate.ClusterProtectedAttribute(a, old, env.master)
		},
		warn: func(ctx context.Context, a, old T) []string {
			if old == nil {
				return env.warnings(ctx, protectedattr.FromCluster(a), nil)
			}
			was := protectedattr.FromCluster(old)
			return env.warnings(ctx, protectedattr.FromCluster(a), &was)
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

// protectionRole is a role in a table: ClusterRole/release-managers, or Role/master/keepers if it is one of Policy.
func protectionRole(ref policy.RoleReference) string {
	if ref.Namespace != "" {
		return ref.Kind + "/" + ref.Namespace + "/" + ref.Name
	}
	return ref.Kind + "/" + ref.Name
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
		{name: "Role", description: "The role whose members can set it.", cell: func(a T) any { return protectionRole(of(a).role) }},
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
