package validate

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// maxRedacted bounds each of the lists of fields that a sink redacts or reveals: every event is looked at for them.
const maxRedacted = 64

// redaction checks which fields a sink does not get.
func redaction(r *audit.Redaction, path *field.Path) field.ErrorList {
	errs := permissionNames(r.Permissions, path.Child("permissions"))
	if len(r.Fields) > maxRedacted {
		return append(errs, field.TooMany(path.Child("fields"), len(r.Fields), maxRedacted))
	}
	for i, f := range r.Fields {
		errs = append(errs, redactedField(f, path.Child("fields").Index(i))...)
	}
	if len(r.Permissions)+len(r.Fields) == 0 {
		errs = append(errs, field.Required(path, "name permissions or fields; leave redact out to redact nothing"))
	}
	return errs
}

func redactedField(f audit.RedactedField, path *field.Path) field.ErrorList {
	errs := resources(f.Resources, path.Child("resources"))
	at, err := fieldperm.ParsePath(f.Field)
	if err != nil {
		return append(errs, field.Invalid(path.Child("field"), f.Field, err.Error()))
	}
	if len(at) == 0 || at[0].Bracket {
		return append(errs, field.Invalid(path.Child("field"), f.Field, "must start with the name of a field, such as .data"))
	}
	for _, shown := range []string{".apiVersion", ".kind", ".metadata.name", ".metadata.namespace", ".metadata.uid"} {
		if known, err := fieldperm.ParsePath(shown); err == nil && at.Overlaps(known) {
			return append(errs, field.Invalid(path.Child("field"), f.Field, "cannot be redacted: every event shows "+shown))
		}
	}
	return errs
}

// permissionNames checks names of field permissions.
func permissionNames(list []string, path *field.Path) field.ErrorList {
	if len(list) > maxRedacted {
		return field.ErrorList{field.TooMany(path, len(list), maxRedacted)}
	}
	errs := names(list, path, "permission")
	for i, name := range list {
		if err := fieldperm.ValidateName(name); name != "" && err != nil {
			errs = append(errs, field.Invalid(path.Index(i), name, err.Error()))
		}
	}
	return errs
}
