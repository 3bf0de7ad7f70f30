package validate

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// Kinds of the roles that a protection can name.
const (
	roleKind        = "Role"
	clusterRoleKind = "ClusterRole"
)

// ProtectedAttribute checks a protection of a namespace. old is nil on create.
func ProtectedAttribute(a, old *policy.ProtectedAttribute) field.ErrorList {
	errs := subdomainName(a.Name)
	errs = append(errs, protection{a.AttributeKind, a.AttributeName, a.RoleRef, a.ProtectedValues, a.Scope}.validate(roleKind, clusterRoleKind)...)
	errs = append(errs, enforcement(a.Enforcement, field.NewPath("enforcement"))...)
	if old != nil {
		errs = append(errs, sameAttribute(a.AttributeKind, old.AttributeKind, a.AttributeName, old.AttributeName)...)
	}
	return errs
}

// ClusterProtectedAttribute checks a protection of the cluster. old is nil on create.
func ClusterProtectedAttribute(a, old *policy.ClusterProtectedAttribute) field.ErrorList {
	errs := subdomainName(a.Name)
	errs = append(errs, protection{a.AttributeKind, a.AttributeName, a.RoleRef, a.ProtectedValues, a.Scope}.validate(clusterRoleKind)...)
	errs = append(errs, enforcement(a.Enforcement, field.NewPath("enforcement"))...)
	if old != nil {
		errs = append(errs, sameAttribute(a.AttributeKind, old.AttributeKind, a.AttributeName, old.AttributeName)...)
	}
	return errs
}

// protection is what the two kinds have in common.
type protection struct {
	kind   policy.AttributeKind
	name   string
	role   policy.RoleReference
	values []string
	scope  policy.ProtectionScope
}

func (p protection) validate(roleKinds ...string) (errs field.ErrorList) {
	switch p.kind {
	case policy.AttributeLabel, policy.AttributeAnnotation:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("attributeKind"), p.kind, []policy.AttributeKind{policy.AttributeLabel, policy.AttributeAnnotation}))
	}
	for _, msg := range validation.IsQualifiedName(p.name) {
		errs = append(errs, field.Invalid(field.NewPath("attributeName"), p.name, "must be the key of a label or annotation: "+msg))
	}
	errs = append(errs, p.validateRole(field.NewPath("roleRef"), roleKinds)...)
	errs = append(errs, p.validateValues(field.NewPath("protectedValues"))...)
	switch p.scope {
	case policy.ScopeObjectOnly, policy.ScopeIncludeTemplates:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("scope"), p.scope, []policy.ProtectionScope{policy.ScopeObjectOnly, policy.ScopeIncludeTemplates}))
	}
	return errs
}

func (p protection) validateRole(path *field.Path, kinds []string) (errs field.ErrorList) {
	if p.role.APIGroup != policy.RoleAPIGroup {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), p.role.APIGroup, []string{policy.RoleAPIGroup}))
	}
	supported := false
	for _, k := range kinds {
		supported = supported || k == p.role.Kind
	}
	if !supported {
		errs = append(errs, field.NotSupported(path.Child("kind"), p.role.Kind, kinds))
	}
	if p.role.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name the role whose members can set the attribute"))
	}
	return errs
}

// validateValues refuses values that no label can have: they would look like a protection and be none. An annotation
// can have any value; the empty value is one, too.
func (p protection) validateValues(path *field.Path) (errs field.ErrorList) {
	seen := map[string]bool{}
	if p.values != nil && len(p.values) == 0 {
		errs = append(errs, field.Invalid(path, "[]", "is empty; leave it out to protect every value"))
	}
	for i, v := range p.values {
		if seen[v] {
			errs = append(errs, field.Duplicate(path.Index(i), v))
		}
		seen[v] = true
		if p.kind != policy.AttributeLabel {
			continue
		}
		for _, msg := range validation.IsValidLabelValue(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, "no label can have this value: "+msg))
		}
	}
	return errs
}

func sameAttribute(kind, oldKind policy.AttributeKind, name, oldName string) (errs field.ErrorList) {
	const remedy = "cannot be changed; create a new object for the other attribute and delete this one"
	if kind != oldKind {
		errs = append(errs, field.Forbidden(field.NewPath("attributeKind"), remedy))
	}
	if name != oldName {
		errs = append(errs, field.Forbidden(field.NewPath("attributeName"), remedy))
	}
	return errs
}
