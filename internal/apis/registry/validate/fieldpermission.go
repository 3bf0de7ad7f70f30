package validate

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// FieldPermission checks a field permission. check adds what takes a CEL environment to check.
func FieldPermission(p *policy.FieldPermission, check func(policy.FieldPermissionSpec, *field.Path) field.ErrorList) field.ErrorList {
	path := field.NewPath("spec")
	errs := subdomainName(p.Name)
	errs = append(errs, resources(p.Spec.Resources, path.Child("resources"))...)
	if _, err := fieldperm.ParsePath(p.Spec.Field); err != nil {
		errs = append(errs, field.Invalid(path.Child("field"), p.Spec.Field, err.Error()))
	}
	if err := fieldperm.ValidateName(p.Spec.Permission); err != nil {
		errs = append(errs, field.Invalid(path.Child("permission"), p.Spec.Permission, err.Error()))
	}
	if param := p.Spec.Parameter; param != nil {
		errs = append(errs, parameter(*param, path.Child("parameter"))...)
	}
	if p.Spec.ExclusiveWhen != "" && !p.Spec.Exclusive {
		errs = append(errs, field.Forbidden(path.Child("exclusiveWhen"), "narrows an exclusive field; set exclusive: true as well"))
	}
	errs = append(errs, keep(p.Spec, path.Child("keep"))...)
	errs = append(errs, templates(p.Spec.Templates, path.Child("templates"))...)
	errs = append(errs, enforcement(p.Spec.Enforcement, path.Child("enforcement"))...)
	if len(p.Spec.ExclusiveWhen) > maxExpression {
		errs = append(errs, field.TooLong(path.Child("exclusiveWhen"), "", maxExpression))
	}
	if len(errs) > 0 {
		return errs
	}
	// What is left are rules about several fields together.
	if _, err := fieldperm.FromFieldPermission(p); err != nil {
		return field.ErrorList{field.Invalid(path, "", err.Error())}
	}
	if check == nil {
		return nil
	}
	return check(p.Spec, path)
}

func resources(list []string, path *field.Path) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, `name at least one resource, or "*" for all`)}
	}
	errs := names(list, path, "resource")
	for i, r := range list {
		if r == "*" && len(list) > 1 {
			errs = append(errs, field.Invalid(path.Index(i), r, "means all resources; leave the others out"))
		} else if _, err := fieldperm.ParseResource(r); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), r, err.Error()))
		}
	}
	return errs
}

func templates(list []policy.FieldPermissionTemplate, path *field.Path) (errs field.ErrorList) {
	if len(list) > fieldperm.MaxTemplates {
		return field.ErrorList{field.TooMany(path, len(list), fieldperm.MaxTemplates)}
	}
	for i, t := range list {
		if r, err := fieldperm.ParseResource(t.Resource); err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("resource"), t.Resource, err.Error()))
		} else if r.All() {
			errs = append(errs, field.Invalid(path.Index(i).Child("resource"), t.Resource, "must be one resource"))
		}
		if at, err := fieldperm.ParsePath(t.Field); err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("field"), t.Field, err.Error()))
		} else if err := (fieldperm.Template{At: at}).Validate(); err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("field"), t.Field, err.Error()))
		}
	}
	return errs
}

func keep(spec policy.FieldPermissionSpec, path *field.Path) field.ErrorList {
	switch {
	case spec.Keep == "":
		return nil
	case spec.Keep != policy.KeepNothing && spec.Keep != policy.KeepKeys:
		return field.ErrorList{field.NotSupported(path, spec.Keep, []policy.HiddenKeep{policy.KeepKeys, policy.KeepNothing})}
	case !spec.ReadExclusive:
		return field.ErrorList{field.Forbidden(path, "says what is shown of a hidden field; set readExclusive: true as well")}
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
