package validate

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What follows are the checks that Kubernetes makes of objects of RBAC, for programs without Kubernetes in them. A test
// of rbacguard compares them with upstream's own.

func rbacName(name string, _ bool) []string { return path.IsValidPathSegmentName(name) }

func rbacMeta(meta *metav1.ObjectMeta, namespaced bool) field.ErrorList {
	return validation.ValidateObjectMeta(meta, namespaced, rbacName, field.NewPath("metadata"))
}

// RBACRole checks a role.
func RBACRole(r *rbacv1.Role) field.ErrorList {
	return append(rbacMeta(&r.ObjectMeta, true), rbacRules(r.Rules, true)...)
}

// RBACClusterRole checks a cluster role.
func RBACClusterRole(r *rbacv1.ClusterRole) field.ErrorList {
	errs := append(rbacMeta(&r.ObjectMeta, false), rbacRules(r.Rules, false)...)
	if r.AggregationRule == nil {
		return errs
	}
	at := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		errs = append(errs, metav1validation.ValidateLabelSelector(&r.AggregationRule.ClusterRoleSelectors[i], metav1validation.LabelSelectorValidationOptions{}, at.Index(i))...)
	}
	return errs
}

func rbacRules(rules []rbacv1.PolicyRule, namespaced bool) (errs field.ErrorList) {
	for i := range rules {
		rule, at := &rules[i], field.NewPath("rules").Index(i)
		if len(rule.Verbs) == 0 {
			errs = append(errs, field.Required(at.Child("verbs"), "verbs must contain at least one value"))
		}
		about := len(rule.APIGroups) + len(rule.Resources) + len(rule.ResourceNames)
		if len(rule.NonResourceURLs) > 0 {
			if namespaced {
				errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
			}
			if about > 0 {
				errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
			}
			continue
		}
		if len(rule.APIGroups) == 0 {
			errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(rule.Resources) == 0 {
			errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
}

// RBACRoleBinding checks a role binding with its defaults, and that it refers to the same role as the old one, if there
// is one.
func RBACRoleBinding(b, old *rbacv1.RoleBinding) field.ErrorList {
	errs := append(rbacMeta(&b.ObjectMeta, true), rbacBinding(b.RoleRef, b.Subjects, "Role", "ClusterRole")...)
	if old != nil {
		errs = append(errs, validation.ValidateImmutableField(b.RoleRef, old.RoleRef, field.NewPath("roleRef"))...)
	}
	return errs
}

// RBACClusterRoleBinding checks a cluster role binding in the same way.
func RBACClusterRoleBinding(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := append(rbacMeta(&b.ObjectMeta, false), rbacBinding(b.RoleRef, b.Subjects, "ClusterRole")...)
	if old != nil {
		errs = append(errs, validation.ValidateImmutableField(b.RoleRef, old.RoleRef, field.NewPath("roleRef"))...)
	}
	return errs
}

func rbacBinding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, kinds ...string) (errs field.ErrorList) {
	at := field.NewPath("roleRef")
	errs = append(errs, oneOf(at.Child("apiGroup"), ref.APIGroup, rbacv1.GroupName)...)
	errs = append(errs, oneOf(at.Child("kind"), ref.Kind, kinds...)...)
	if ref.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		for _, problem := range rbacName(ref.Name, false) {
			errs = append(errs, field.Invalid(at.Child("name"), ref.Name, problem))
		}
	}
	for i, s := range subjects {
		at := field.NewPath("subjects").Index(i)
		if s.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			if s.Name != "" {
				for _, problem := range validation.ValidateServiceAccountName(s.Name, false) {
					errs = append(errs, field.Invalid(at.Child("name"), s.Name, problem))
				}
			}
			errs = append(errs, oneOf(at.Child("apiGroup"), s.APIGroup, "")...)
			if len(kinds) == 1 && s.Namespace == "" { // nowhere to look for it
				errs = append(errs, field.Required(at.Child("namespace"), ""))
			}
		case rbacv1.UserKind, rbacv1.GroupKind:
			errs = append(errs, oneOf(at.Child("apiGroup"), s.APIGroup, rbacv1.GroupName)...)
		default:
			errs = append(errs, oneOf(at.Child("kind"), s.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)...)
		}
	}
	return errs
}

func oneOf(at *field.Path, value string, known ...string) field.ErrorList {
	for _, k := range known {
		if value == k {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(at, value, known)}
}
