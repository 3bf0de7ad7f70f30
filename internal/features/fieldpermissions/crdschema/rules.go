package crdschema

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// checkTimeout bounds what checking the declarations of one definition takes, which is the writer's time alone.
const checkTimeout = 10 * time.Second

// check says which rules the declarations of a definition break, each at its place in the definition.
func (r record) check(ctx context.Context, crd *apiextensions.CustomResourceDefinition, exprs fieldperm.Expressions) field.ErrorList {
	if err := r.fits(); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "versions"), field.OmitValueType{}, err.Error())}
	}
	index := map[string]int{}
	for i := range crd.Spec.Versions {
		index[crd.Spec.Versions[i].Name] = i
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var errs field.ErrorList
	for _, version := range slices.SortedFunc(maps.Keys(r), func(a, b string) int { return cmp.Compare(index[a], index[b]) }) {
		i, known := index[version]
		if !known {
			errs = append(errs, field.NotFound(field.NewPath("spec", "versions"), version))
			continue
		}
		for _, at := range slices.Sorted(maps.Keys(r[version])) {
			path := at.in(schemaPath(i))
			if ctx.Err() != nil {
				return append(errs, field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("checking the declarations takes longer than %s: simplify their expressions", checkTimeout)))
			}
			errs = append(errs, r.checkEntry(crd, version, at, path, exprs)...)
			errs = append(errs, r.checkVersions(crd, version, at, path)...)
			if len(errs) >= maxErrors {
				return errs
			}
		}
	}
	return errs
}

// checkEntry holds one declaration against the rules of all declarations.
func (r record) checkEntry(crd *apiextensions.CustomResourceDefinition, version string, at place, path *field.Path, exprs fieldperm.Expressions) field.ErrorList {
	e := r[version][at]
	if err := e.check(); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	if !hasPlace(crd, version, at) {
		return field.ErrorList{field.NotFound(path, string(at))}
	}
	if e[KeyTemplate] != nil {
		if err := checkTemplate(crd, version, at); err != nil {
			return field.ErrorList{field.Invalid(path.Child(KeyTemplate), e.text(KeyTemplate), err.Error())}
		}
		if len(e.permission()) == 0 {
			return nil
		}
	}
	if e[KeyVerb] == nil {
		return field.ErrorList{field.Required(path.Child(KeyVerb), "the other keys say how this permission works")}
	}
	if err := fieldperm.ValidateName(e.text(KeyVerb)); err != nil {
		return field.ErrorList{field.Invalid(path.Child(KeyVerb), e.text(KeyVerb), err.Error())}
	}
	if e[KeyTreatment] != nil && e[KeyParameter] == nil {
		return field.ErrorList{field.Required(path.Child(KeyParameter), "there is a treatment, and nothing to treat")}
	}
	d, err := declaration(resource{crd.Name, crd.Spec.Group, crd.Spec.Names.Plural}, version, at, e)
	if err == nil {
		err = d.Validate()
	}
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	if d.Parameter != nil && d.Parameter.From == sources["condition-type"] && !hasType(schemaAt(crd, version, at)) {
		return field.ErrorList{field.Invalid(path.Child(KeyParameter), e.text(KeyParameter), "needs entries that are objects with a field type, a string, as conditions are")}
	}
	// The table compiles expressions, and says what is wrong with them.
	wrong := func(d fieldperm.Declaration) string {
		if _, issues := fieldperm.New(fieldperm.Config{Declared: []fieldperm.Declaration{d}, Expressions: exprs}); len(issues) > 0 {
			return issues[0].Message
		}
		return ""
	}
	if d.ExclusiveWhen != "" {
		alone := d
		alone.Parameter = nil
		if message := wrong(alone); message != "" {
			return field.ErrorList{field.Invalid(path.Child(KeyWhen), d.ExclusiveWhen, message)}
		}
	}
	if d.Parameter != nil {
		if message := wrong(d); message != "" {
			return field.ErrorList{field.Invalid(path.Child(KeyParameter), e.text(KeyParameter), message)}
		}
	}
	return nil
}

// checkTemplate reports why a field is not the template of a pod; nil if it may be one.
func checkTemplate(crd *apiextensions.CustomResourceDefinition, version string, at place) error {
	if _, err := template(resource{crd.Name, crd.Spec.Group, crd.Spec.Names.Plural}, version, at); err != nil {
		return err
	}
	schema := schemaAt(crd, version, at)
	spec, described := schema.Properties["spec"]
	if described && spec.Type == "object" || !described && schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields {
		return nil
	}
	return errors.New("needs a field that is an object with a field spec, as the template of a pod has")
}

// hasType reports whether what a schema describes may have a type, as conditions do.
func hasType(schema *apiextensions.JSONSchemaProps) bool {
	if schema == nil {
		return false
	}
	of, described := schema.Properties["type"]
	if !described {
		return schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
	}
	return of.Type == "string"
}

// checkVersions holds a declaration against those of the other versions. The same field must be declared in the same
// way in each version that has it (FP-1). And every version that is served or stored must have every permission, at
// whatever field: objects are compared in one version, whatever version a request uses (FP-10), and what is not
// declared there guards nothing.
func (r record) checkVersions(crd *apiextensions.CustomResourceDefinition, version string, at place, path *field.Path) field.ErrorList {
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		switch {
		case v.Name == version || reflect.DeepEqual(r[v.Name][at], r[version][at]):
		case hasPlace(crd, v.Name, at):
			return field.ErrorList{field.Invalid(path, r[version][at].what(),
				"version "+v.Name+" has the same field and declares nothing, or something else, for it: a permission is the same in every version of a resource")}
		case (v.Served || v.Storage) && !r.hasPermission(v.Name, r[version][at]):
			return field.ErrorList{field.Invalid(path, r[version][at].what(),
				"version "+v.Name+" does not declare this permission in the same way for any of its fields: a permission is the same in every version of a resource")}
		}
	}
	return nil
}

// hasPermission reports whether a version declares a permission somewhere, in the same way.
func (r record) hasPermission(version string, e entry) bool {
	for _, have := range r[version] {
		if reflect.DeepEqual(have, e) {
			return true
		}
	}
	return false
}
