package validate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Policy checks a container of roles. old is nil on create. Its contents never change here.
func Policy(p, old *policy.Policy) (errs field.ErrorList) {
	if p.Name != policy.PolicyName {
		errs = append(errs, field.Invalid(metadata.Child("name"), p.Name,
			fmt.Sprintf("a namespace has exactly one Policy, named %q; use that name", policy.PolicyName)))
	}
	switch path := field.NewPath("roles"); {
	case old == nil && len(p.Roles) > 0:
		errs = append(errs, field.Forbidden(path, "a Policy is created empty; create its roles as objects of kind Role (roles."+authz.GroupName+") afterwards"))
	case old != nil && !equality.Semantic.DeepEqual(p.Roles, old.Roles):
		errs = append(errs, field.Forbidden(path, "the roles of a Policy are changed through objects of kind Role (roles."+authz.GroupName+") only"))
	}
	return errs
}

// PolicyBinding checks a container of role bindings. old is nil on create. Its contents never change here.
func PolicyBinding(b, old *policy.PolicyBinding, masterNamespace string) (errs field.ErrorList) {
	if old == nil && b.Name != b.Namespace && b.Name != masterNamespace {
		errs = append(errs, field.Invalid(metadata.Child("name"), b.Name,
			fmt.Sprintf("a PolicyBinding is named after the namespace of the policy it refers to: its own, %q, or the master namespace, %q", b.Namespace, masterNamespace)))
	}
	if b.PolicyRef.Namespace != b.Name {
		errs = append(errs, field.Invalid(field.NewPath("policyRef", "namespace"), b.PolicyRef.Namespace,
			fmt.Sprintf("must be the name of the PolicyBinding, %q; leave it out to have it so", b.Name)))
	}
	switch path := field.NewPath("roleBindings"); {
	case old == nil && len(b.RoleBindings) > 0:
		errs = append(errs, field.Forbidden(path, "a PolicyBinding is created empty; create its role bindings as objects of kind RoleBinding (rolebindings."+authz.GroupName+") afterwards"))
	case old != nil && !equality.Semantic.DeepEqual(b.RoleBindings, old.RoleBindings):
		errs = append(errs, field.Forbidden(path, "the role bindings of a PolicyBinding are changed through objects of kind RoleBinding (rolebindings."+authz.GroupName+") only"))
	}
	return errs
}

// Role checks a role. had is what its rules were before; check adds what takes the engine to check.
func Role(r *authz.Role, had []policy.PolicyRule, masterNamespace string, check func(policy.PolicyRule, *field.Path) field.ErrorList) field.ErrorList {
	errs, path := entryMeta(r.ObjectMeta, "Policy"), field.NewPath("rules")
	if equality.Semantic.DeepEqual(r.Rules, had) {
		check = nil
	} else if err := cmp.Or(limits.Role(r.Rules), limits.Conditions(r.Rules)); err != nil {
		return append(errs, field.Invalid(path, field.OmitValueType{}, err.Error()))
	} else if n := newBytes(r.Rules, had); n > maxNewBytes {
		return append(errs, field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(
			"the conditions that this write adds or changes take %d bytes, the limit of one write is %d: write the role in several steps, or split it into several roles", n, maxNewBytes)))
	}
	return append(errs, Rules(r.Rules, r.Namespace == masterNamespace, path, unless(had, check))...)
}

var limits = ruleset.DefaultLimits()

// maxNewBytes is how many bytes of expressions one write can have compiled, which takes about 10 µs each.
const maxNewBytes = 64 << 10

// newBytes counts the expressions that have to be compiled.
func newBytes(rules, had []policy.PolicyRule) (n int) {
	count := unless(had, func(r policy.PolicyRule, _ *field.Path) field.ErrorList {
		n += len(r.Where) + len(r.When)
		return nil
	})
	for i := range rules {
		count(rules[i], nil)
	}
	return n
}

// unless leaves out conditions that have been checked before, since that takes long.
func unless(had []policy.PolicyRule, check func(policy.PolicyRule, *field.Path) field.ErrorList) func(policy.PolicyRule, *field.Path) field.ErrorList {
	had = slices.DeleteFunc(slices.Clone(had), func(r policy.PolicyRule) bool { return !ruleset.HasCondition(&r) })
	if check == nil || len(had) == 0 {
		return check
	}
	return func(rule policy.PolicyRule, path *field.Path) field.ErrorList {
		if ruleset.HasCondition(&rule) && slices.ContainsFunc(had, func(r policy.PolicyRule) bool { return equality.Semantic.DeepEqual(r, rule) }) {
			return nil
		}
		return check(rule, path)
	}
}

// clusterRole checks a reference to a role of RBAC.
func clusterRole(b *authz.RoleBinding, ref *field.Path) (errs field.ErrorList) {
	if b.RoleRef.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(ref.Child("apiGroup"), b.RoleRef.APIGroup, []string{rbacv1.GroupName}))
	}
	if b.RoleRef.Kind != "ClusterRole" {
		errs = append(errs, field.NotSupported(ref.Child("kind"), b.RoleRef.Kind, []string{"ClusterRole"}))
	}
	if b.RoleRef.Namespace != "" {
		errs = append(errs, field.Forbidden(ref.Child("namespace"), "a ClusterRole has no namespace"))
	}
	if b.ReferencesGlobalRole {
		errs = append(errs, field.Forbidden(field.NewPath("referencesGlobalRole"), "means a role of the master namespace; roleRef names a ClusterRole"))
	}
	return errs
}

// instant checks a time at which something begins or ends.
func instant(t *metav1.Time, path *field.Path) field.ErrorList {
	switch {
	case t == nil:
	case t.IsZero():
		return field.ErrorList{field.Invalid(path, t.Time, "is not an instant; leave the field out if there is none")}
	case t.Nanosecond() != 0:
		return field.ErrorList{field.Invalid(path, t.Format(time.RFC3339Nano), "must be in whole seconds")}
	}
	return nil
}

// interval checks when a binding counts.
func interval(notBefore, notAfter *metav1.Time) (errs field.ErrorList) {
	for name, t := range map[string]*metav1.Time{"notBefore": notBefore, "notAfter": notAfter} {
		errs = append(errs, instant(t, field.NewPath(name))...)
	}
	if notBefore != nil && notAfter != nil && !notBefore.Before(notAfter) {
		errs = append(errs, field.Invalid(field.NewPath("notAfter"), notAfter.UTC().Format(time.RFC3339), "must be after notBefore, "+notBefore.UTC().Format(time.RFC3339)))
	}
	return errs
}

// RoleBinding checks a role binding. old is nil on create.
func RoleBinding(b, old *authz.RoleBinding, masterNamespace string) field.ErrorList {
	errs := entryMeta(b.ObjectMeta, "PolicyBinding")
	ref := field.NewPath("roleRef")
	if b.ReferencesGlobalRole && b.RoleRef.Namespace != masterNamespace {
		errs = append(errs, field.Invalid(field.NewPath("referencesGlobalRole"), true, fmt.Sprintf("means the master namespace, and roleRef.namespace is %q; give roleRef alone", b.RoleRef.Namespace)))
	}
	if b.RoleName != "" && b.RoleName != b.RoleRef.Name {
		errs = append(errs, field.Invalid(field.NewPath("roleName"), b.RoleName, fmt.Sprintf("is not roleRef.name, %q; give roleRef alone", b.RoleRef.Name)))
	}
	if b.RoleRef.Name == "" {
		errs = append(errs, field.Required(ref.Child("name"), "name the role"))
	}
	if b.RoleRef.ClusterRole() {
		errs = append(errs, clusterRole(b, ref)...)
	} else if ns := b.RoleRef.Namespace; ns != b.Namespace && ns != masterNamespace {
		errs = append(errs, field.Invalid(ref.Child("namespace"), ns,
			fmt.Sprintf("a role binding refers to a role of its own namespace, %q, or of the master namespace, %q", b.Namespace, masterNamespace)))
	}
	if old != nil && b.RoleRef != old.RoleRef {
		errs = append(errs, field.Forbidden(ref, "cannot be changed; delete the role binding and create it again"))
	}
	errs = append(errs, interval(b.NotBefore, b.NotAfter)...)
	errs = append(errs, names(b.UserNames, field.NewPath("userNames"), "user")...)
	return append(errs, names(b.GroupNames, field.NewPath("groupNames"), "group")...)
}
