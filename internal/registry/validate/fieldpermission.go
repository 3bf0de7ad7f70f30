package validate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// shippedPermissions are the names that need no domain, since Proviso gives them their meaning.
var shippedPermissions = []string{"annotation", "annotations", "condition", "conditions", "finalizer", "finalizers", "label", "labels",
	"metadata", "nodeAssignment", "ownerReferences", "replicas", "specification", "status"}

var lowerCamelCase = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)

var groupResource = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$`)

const maxPermission = 128

// FieldPermission checks a field permission. check adds what takes the engine to check.
func FieldPermission(p *policy.FieldPermission, check func(policy.FieldPermissionSpec, *field.Path) field.ErrorList) field.ErrorList {
	path := field.NewPath("spec")
	errs := subdomainName(p.Name)
	errs = append(errs, resources(p.Spec.Resources, path.Child("resources"))...)
	errs = append(errs, fieldPath(p.Spec.Field, path.Child("field"))...)
	errs = append(errs, PermissionName(p.Spec.Permission, path.Child("permission"))...)
	if param := p.Spec.Parameter; param != nil {
		errs = append(errs, parameter(*param, path.Child("parameter"))...)
	}
	if p.Spec.ExclusiveWhen != "" && !p.Spec.Exclusive {
		errs = append(errs, field.Forbidden(path.Child("exclusiveWhen"), "narrows an exclusive field; set exclusive: true as well"))
	}
	if len(p.Spec.ExclusiveWhen) > maxExpression {
		errs = append(errs, field.TooLong(path.Child("exclusiveWhen"), "", maxExpression))
	}
	if len(errs) == 0 && check != nil {
		errs = append(errs, check(p.Spec, path)...)
	}
	return errs
}

// PermissionName checks the name of a permission: lowerCamelCase, with a domain in front unless Proviso ships it.
func PermissionName(name string, path *field.Path) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(path, "name the permission, such as example.com/selfDestruct")}
	}
	if len(name) > maxPermission {
		return field.ErrorList{field.TooLong(path, "", maxPermission)}
	}
	domain, own, prefixed := strings.Cut(name, "/")
	if !prefixed {
		own = name
	}
	switch {
	case strings.Contains(own, "."):
		errs = append(errs, field.Invalid(path, name, "a permission is about a concept, not a path: its name has no dots"))
	case !lowerCamelCase.MatchString(own):
		errs = append(errs, field.Invalid(path, name, "the name of a permission is lowerCamelCase, such as selfDestruct"))
	case !prefixed && !slices.Contains(shippedPermissions, own):
		errs = append(errs, field.Invalid(path, name,
			fmt.Sprintf("only names that are shipped have no domain (%s); put yours in front, such as example.com/%s", strings.Join(shippedPermissions, ", "), own)))
	}
	if prefixed {
		for _, msg := range validation.IsDNS1123Subdomain(domain) {
			errs = append(errs, field.Invalid(path, name, "the part before the slash is a domain: "+msg))
		}
	}
	return errs
}

func resources(list []string, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, `name at least one resource, or "*" for all`)}
	}
	errs := names(list, path, "resource")
	for i, r := range list {
		switch {
		case r == "*" && len(list) > 1:
			errs = append(errs, field.Invalid(path.Index(i), r, "means all resources; leave the others out"))
		case r != "*" && !groupResource.MatchString(r):
			errs = append(errs, field.Invalid(path.Index(i), r, "must be a resource in lower case, such as namespaces or deployments.apps, without subresource"))
		}
	}
	return errs
}

// fieldPath checks the outline of a path. The engine checks the rest.
func fieldPath(p string, path *field.Path) field.ErrorList {
	switch {
	case p == "":
		return field.ErrorList{field.Required(path, "name the field, such as .spec.nodeName")}
	case !strings.HasPrefix(p, ".") || p == "." || strings.HasPrefix(p, ".["):
		return field.ErrorList{field.Invalid(path, p, "must begin with a dot and a field of the object, such as .spec.nodeName or .metadata.labels[example.com/team]")}
	case strings.Count(p, "[") != strings.Count(p, "]"):
		return field.ErrorList{field.Invalid(path, p, "has a bracket that is not closed")}
	}
	return nil
}

func parameter(p policy.FieldPermissionParameter, path *field.Path) (errs field.ErrorList) {
	if strings.TrimSpace(p.From) == "" {
		errs = append(errs, field.Required(path.Child("from"), "say where the parameter comes from: key, value, element, or a CEL expression"))
	} else if len(p.From) > maxExpression {
		errs = append(errs, field.TooLong(path.Child("from"), "", maxExpression))
	}
	switch p.Treatment {
	case policy.TreatmentVerbatim, policy.TreatmentSlashDelimitedPrefix:
	default:
		errs = append(errs, field.NotSupported(path.Child("treatment"), p.Treatment, []policy.ParameterTreatment{policy.TreatmentSlashDelimitedPrefix}))
	}
	return errs
}
