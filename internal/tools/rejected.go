package tools

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/offline"
	"proviso.dev/proviso/internal/registry"
	"proviso.dev/proviso/internal/registry/validate"
	"proviso.dev/proviso/internal/snapshot"
)

// invalid are the objects of a change that a server would not take, by the checks that it makes when they are written.
// Conditions are compiled elsewhere, and so are escalations: those depend on who writes.
func invalid(before *offline.Host, change []document, master string) (out []rejected) {
	v := validator{before, master}
	for _, d := range change {
		for _, err := range v.check(d) {
			out = append(out, rejected{Message: fmt.Sprintf("%s: %v", d.key(), err)})
		}
	}
	return out
}

type validator struct {
	before *offline.Host
	master string
}

func (v validator) check(d document) field.ErrorList {
	object, _ := written(d)
	if object == nil {
		object = asProtection(d)
	}
	switch o := object.(type) {
	case *authz.Role:
		var had []policyv1alpha1.PolicyRule
		if p, ok := stored[*policyv1alpha1.Policy](v.before, snapshot.Policies, o.Namespace+"/default"); ok {
			had = p.Roles[o.Name].Rules
		}
		return validate.Role(o, had, v.master, nil)
	case *authz.RoleBinding:
		registry.SettleRoleRef(o, v.master)
		return validate.RoleBinding(o, v.binding(o), v.master)
	case *rbacv1.Role:
		return append(rbacName(o.Name), rbacRules(o.Rules, true)...)
	case *rbacv1.ClusterRole:
		if o.AggregationRule != nil {
			return rbacName(o.Name)
		}
		return append(rbacName(o.Name), rbacRules(o.Rules, false)...)
	case *rbacv1.RoleBinding:
		var had *rbacv1.RoleRef
		if old, ok := stored[*rbacv1.RoleBinding](v.before, snapshot.RoleBindings, o.Namespace+"/"+o.Name); ok {
			had = &old.RoleRef
		}
		return append(rbacName(o.Name), rbacBinding(o.RoleRef, had, o.Subjects, "Role", "ClusterRole")...)
	case *rbacv1.ClusterRoleBinding:
		var had *rbacv1.RoleRef
		if old, ok := stored[*rbacv1.ClusterRoleBinding](v.before, snapshot.ClusterRoleBindings, o.Name); ok {
			had = &old.RoleRef
		}
		return append(rbacName(o.Name), rbacBinding(o.RoleRef, had, o.Subjects, "ClusterRole")...)
	case *policyv1alpha1.ProtectedAttribute:
		old, _ := stored[*policyv1alpha1.ProtectedAttribute](v.before, snapshot.ProtectedAttributes, o.Namespace+"/"+o.Name)
		return validate.ProtectedAttribute(o, old)
	case *policyv1alpha1.ClusterProtectedAttribute:
		old, _ := stored[*policyv1alpha1.ClusterProtectedAttribute](v.before, snapshot.ClusterProtectedAttributes, o.Name)
		return validate.ClusterProtectedAttribute(o, old)
	case *policyv1alpha1.FieldPermission:
		return validate.FieldPermission(o, func(policyv1alpha1.FieldPermissionSpec, *field.Path) field.ErrorList { return nil })
	case *auditv1alpha1.AuditClass:
		return validate.AuditClass(o)
	}
	return nil
}

// binding is a role binding as it was; nil if it was not there.
func (v validator) binding(b *authz.RoleBinding) *authz.RoleBinding {
	for _, container := range []string{b.Namespace, v.master} {
		if p, ok := stored[*policyv1alpha1.PolicyBinding](v.before, snapshot.PolicyBindings, b.Namespace+"/"+container); ok {
			if old, found := p.RoleBindings[b.Name]; found {
				return &authz.RoleBinding{RoleRef: authz.RoleRef{Namespace: p.PolicyRef.Namespace, Name: old.RoleName}}
			}
		}
	}
	return nil
}

// stored is an object of the policy that there is.
func stored[T any](host *offline.Host, kind snapshot.Kind, key string) (none T, found bool) {
	objects, err := host.Files().Objects(kind)
	if err != nil || objects == nil {
		return none, false
	}
	obj, exists, err := objects.GetIndexer().GetByKey(key)
	if err != nil || !exists {
		return none, false
	}
	one, ok := obj.(T)
	return one, ok
}

// asProtection reads the kinds that are no roles and bindings; nil for others.
func asProtection(d document) runtime.Object {
	var object runtime.Object
	switch d.object.GroupVersionKind().GroupKind().String() {
	case "ProtectedAttribute.policy.proviso.dev":
		object = &policyv1alpha1.ProtectedAttribute{}
	case "ClusterProtectedAttribute.policy.proviso.dev":
		object = &policyv1alpha1.ClusterProtectedAttribute{}
	case "FieldPermission.policy.proviso.dev":
		object = &policyv1alpha1.FieldPermission{}
	case "AuditClass.auditregistration.k8s.io":
		object = &auditv1alpha1.AuditClass{}
	default:
		return nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.object.Object, object); err != nil {
		return nil
	}
	registry.VersionedScheme().Default(object)
	return object
}

// What follows are the checks of Kubernetes for RBAC that depend on nothing but the object.

func rbacName(name string) (errs field.ErrorList) {
	for _, problem := range pathvalidation.IsValidPathSegmentName(name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, problem))
	}
	return errs
}

func rbacRules(rules []rbacv1.PolicyRule, namespaced bool) (errs field.ErrorList) {
	for i, rule := range rules {
		path := field.NewPath("rules").Index(i)
		if len(rule.Verbs) == 0 {
			errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
		}
		paths := len(rule.NonResourceURLs) > 0
		switch {
		case paths && namespaced:
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		case paths && len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0:
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
		case paths:
		case len(rule.APIGroups) == 0:
			errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
		case len(rule.Resources) == 0:
			errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
}

func rbacBinding(ref rbacv1.RoleRef, had *rbacv1.RoleRef, subjects []rbacv1.Subject, kinds ...string) (errs field.ErrorList) {
	path := field.NewPath("roleRef")
	if ref.APIGroup != "" && ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	known := false
	for _, kind := range kinds {
		known = known || ref.Kind == kind
	}
	if !known {
		errs = append(errs, field.NotSupported(path.Child("kind"), ref.Kind, kinds))
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if had != nil && (had.Kind != ref.Kind || had.Name != ref.Name) {
		errs = append(errs, field.Invalid(path, ref.Kind+" "+ref.Name, "cannot change roleRef"))
	}
	for i, s := range subjects {
		at := field.NewPath("subjects").Index(i)
		if s.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		switch s.Kind {
		case rbacv1.UserKind, rbacv1.GroupKind, rbacv1.ServiceAccountKind:
		default:
			errs = append(errs, field.NotSupported(at.Child("kind"), s.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
		}
	}
	return errs
}
