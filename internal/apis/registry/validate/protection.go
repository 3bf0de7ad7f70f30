package validate

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Kinds of the roles that a protection can name.
const (
	roleKind        = "Role"
	clusterRoleKind = "ClusterRole"
)

// ProtectedAttribute checks a protection of a namespace. old is nil on create.
func ProtectedAttribute(a, old *policy.ProtectedAttribute, master string) field.ErrorList {
	errs := subdomainName(a.Name)
	errs = append(errs, protection{a.AttributeKind, a.AttributeName, a.RoleRef, a.ProtectedValues, a.Scope, a.UnlistedValues, a.Resources}.validate(a.Namespace, master)...)
	errs = append(errs, enforcement(a.Enforcement, field.NewPath("enforcement"))...)
	if old != nil {
		errs = append(errs, sameAttribute(a.AttributeKind, old.AttributeKind, a.AttributeName, old.AttributeName)...)
	}
	return errs
}

// ClusterProtectedAttribute checks a protection of the cluster. old is nil on create.
func ClusterProtectedAttribute(a, old *policy.ClusterProtectedAttribute, master string) field.ErrorList {
	errs := subdomainName(a.Name)
	errs = append(errs, protection{a.AttributeKind, a.AttributeName, a.RoleRef, a.ProtectedValues, a.Scope, a.UnlistedValues, a.Resources}.validate("", master)...)
	errs = append(errs, enforcement(a.Enforcement, field.NewPath("enforcement"))...)
	if old != nil {
		errs = append(errs, sameAttribute(a.AttributeKind, old.AttributeKind, a.AttributeName, old.AttributeName)...)
	}
	return errs
}

// protection is what the two kinds have in common.
type protection struct {
	kind      policy.AttributeKind
	name      string
	role      policy.RoleReference
	values    []string
	scope     policy.ProtectionScope
	unlisted  policy.UnlistedValues
	resources []string
}

// validate checks all of it; namespace is that of the object, if it has one.
func (p protection) validate(namespace, master string) (errs field.ErrorList) {
	switch p.kind {
	case policy.AttributeLabel, policy.AttributeAnnotation:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("attributeKind"), p.kind, []policy.AttributeKind{policy.AttributeLabel, policy.AttributeAnnotation}))
	}
	errs = append(errs, p.validateName(field.NewPath("attributeName"))...)
	errs = append(errs, p.validateRole(field.NewPath("roleRef"), namespace, master)...)
	errs = append(errs, p.validateValues(field.NewPath("protectedValues"))...)
	errs = append(errs, p.validateUnlisted(field.NewPath("unlistedValues"))...)
	errs = append(errs, p.validateResources(field.NewPath("resources"))...)
	switch p.scope {
	case policy.ScopeObjectOnly, policy.ScopeIncludeTemplates:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("scope"), p.scope, []policy.ProtectionScope{policy.ScopeObjectOnly, policy.ScopeIncludeTemplates}))
	}
	return errs
}

// validateName accepts the key of an attribute, and <domain>/* for every key of a domain; nothing shorter.
func (p protection) validateName(path *field.Path) (errs field.ErrorList) {
	const remedy = "must be the key of a label or annotation, or <domain>/* for every key of a domain: "
	messages := validation.IsQualifiedName(p.name)
	if domain, ok := strings.CutSuffix(p.name, "/*"); ok {
		messages = validation.IsDNS1123Subdomain(domain)
	}
	for _, msg := range messages {
		errs = append(errs, field.Invalid(path, p.name, remedy+msg))
	}
	return errs
}

// validateUnlisted refuses a word about unlisted values where none are listed: every value is protected then.
func (p protection) validateUnlisted(path *field.Path) (errs field.ErrorList) {
	switch p.unlisted {
	case "", policy.UnlistedFree:
	case policy.UnlistedForbidden:
		if len(p.values) == 0 {
			errs = append(errs, field.Invalid(path, p.unlisted, "needs protectedValues: without them every value is protected"))
		}
	default:
		errs = append(errs, field.NotSupported(path, p.unlisted, []policy.UnlistedValues{policy.UnlistedFree, policy.UnlistedForbidden}))
	}
	return errs
}

// validateResources accepts what a deny rule accepts, without subresources: a protection holds on every way to write an
// object.
func (p protection) validateResources(path *field.Path) (errs field.ErrorList) {
	seen := map[string]bool{}
	if p.resources != nil && len(p.resources) == 0 {
		errs = append(errs, field.Invalid(path, "[]", "is empty; leave it out to protect the attribute on all resources"))
	}
	for i, name := range p.resources {
		at := path.Index(i)
		kind, err := matching.ParseKind(name)
		switch {
		case strings.HasPrefix(name, "-"):
			errs = append(errs, field.Invalid(at, name, "cannot be negated: list the resources to protect"))
		case err != nil:
			errs = append(errs, field.Invalid(at, name, err.Error()))
		case strings.Contains(name, "/"):
			errs = append(errs, field.Invalid(at, name, "must not name a subresource: a protection covers those of its resources"))
		case kind.AnyRes && kind.AnyGroup:
			errs = append(errs, field.Invalid(at, name, "is every resource; leave resources out instead"))
		}
		if seen[name] {
			errs = append(errs, field.Duplicate(at, name))
		}
		seen[name] = true
	}
	return errs
}

// validateRole accepts a role of RBAC or of Policy that can have members where the protection holds.
func (p protection) validateRole(path *field.Path, namespace, master string) (errs field.ErrorList) {
	if p.role.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name the role whose members can set the attribute"))
	}
	switch p.role.APIGroup {
	case policy.RoleAPIGroup:
		return append(errs, p.validateRBAC(path, namespace)...)
	case policy.PolicyRoleAPIGroup:
		return append(errs, p.validatePolicyRole(path, namespace, master)...)
	}
	return append(errs, field.NotSupported(path.Child("apiGroup"), p.role.APIGroup, []string{policy.RoleAPIGroup, policy.PolicyRoleAPIGroup}))
}

func (p protection) validateRBAC(path *field.Path, namespace string) (errs field.ErrorList) {
	kinds := []string{clusterRoleKind}
	if namespace != "" {
		kinds = []string{roleKind, clusterRoleKind}
	}
	at := path.Child("namespace")
	switch {
	case !slices.Contains(kinds, p.role.Kind):
		errs = append(errs, field.NotSupported(path.Child("kind"), p.role.Kind, kinds))
	case p.role.Namespace == "":
	case p.role.Kind == clusterRoleKind:
		errs = append(errs, field.Forbidden(at, "a ClusterRole has no namespace"))
	case p.role.Namespace != namespace:
		errs = append(errs, field.Invalid(at, p.role.Namespace, fmt.Sprintf("must be %q, the namespace of the object, or left out", namespace)))
	}
	return errs
}

func (p protection) validatePolicyRole(path *field.Path, namespace, master string) (errs field.ErrorList) {
	if p.role.Kind != roleKind {
		errs = append(errs, field.NotSupported(path.Child("kind"), p.role.Kind, []string{roleKind}))
	}
	at := path.Child("namespace")
	switch in := p.role.Namespace; {
	case in == master:
	case namespace == "" && in == "":
		errs = append(errs, field.Required(at, fmt.Sprintf("must be %q, the master namespace", master)))
	case namespace == "":
		errs = append(errs, field.Invalid(at, in, fmt.Sprintf("must be %q, the master namespace: the roles of another one have members in it only", master)))
	case in != "" && in != namespace:
		errs = append(errs, field.Invalid(at, in, fmt.Sprintf("must be %q, the namespace of the object, or %q, the master namespace", namespace, master)))
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
