package fieldpermissions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/features/fieldpermissions/crdschema"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/state/snapshot"
)

// rights is what field permissions need of the host: the schemas of what is served, and the CEL of declarations.
type rights struct {
	store   *snapshot.Store
	gate    *authorize.Gate
	schemas *schemaSet
	cel     *expressions
	// hides is true if fields can be hidden from readers here.
	hides bool
}

// readDefinition finds what a custom resource definition says about field permissions.
func readDefinition(definition any) snapshot.CustomFields {
	crd, ok := definition.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return snapshot.CustomFields{}
	}
	custom := snapshot.CustomFields{Resource: fieldperm.Resource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}}
	declared, err := crdschema.Declared(crd)
	custom.Declared, custom.Templates = declared, crdschema.Templates(crd)
	if err != nil {
		custom.Problem = err.Error()
	}
	custom.Scale, custom.ShownInScale = scaleFields(crd), shownInScale(crd)
	return custom
}

// scaleFields are the places where a custom resource has its scale field, in order.
func scaleFields(crd *apiextensionsv1.CustomResourceDefinition) []fieldperm.Path {
	var places []fieldperm.Path
	for _, v := range crd.Spec.Versions {
		if !v.Served || v.Subresources == nil || v.Subresources.Scale == nil {
			continue
		}
		path, err := fieldperm.ParsePath(v.Subresources.Scale.SpecReplicasPath)
		if err == nil && !slices.ContainsFunc(places, func(have fieldperm.Path) bool { return have.String() == path.String() }) {
			places = append(places, path)
		}
	}
	return places
}

// shownInScale are all fields of a custom resource that its scale subresource shows. Names are those between dots,
// whatever they consist of.
func shownInScale(crd *apiextensionsv1.CustomResourceDefinition) (all []fieldperm.Path) {
	for _, v := range crd.Spec.Versions {
		if !v.Served || v.Subresources == nil || v.Subresources.Scale == nil {
			continue
		}
		scale := v.Subresources.Scale
		texts := []string{scale.SpecReplicasPath, scale.StatusReplicasPath}
		if scale.LabelSelectorPath != nil {
			texts = append(texts, *scale.LabelSelectorPath)
		}
		for _, text := range texts {
			var at fieldperm.Path
			for name := range strings.SplitSeq(strings.TrimPrefix(text, "."), ".") {
				at = append(at, fieldperm.Field(name))
			}
			all = append(all, at)
		}
	}
	return all
}

// CheckFieldPermission checks a declaration that is being written against what is served now (FP-4). What is not served
// may come later, and is shown in the status until then.
func (f *rights) CheckFieldPermission(spec policyv1alpha1.FieldPermissionSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.ExclusiveWhen != "" {
		if _, err := f.cel.When(spec.ExclusiveWhen); err != nil {
			errs = append(errs, field.Invalid(path.Child("exclusiveWhen"), spec.ExclusiveWhen, err.Error()))
		}
	}
	if p := spec.Parameter; p != nil && !slices.Contains([]string{fieldperm.FromKey, fieldperm.FromValue, fieldperm.FromElement}, p.From) {
		if _, err := f.cel.Parameter(p.From); err != nil {
			errs = append(errs, field.Invalid(path.Child("parameter", "from"), p.From, err.Error()))
		}
	}
	if spec.ReadExclusive && !f.hides {
		errs = append(errs, field.Forbidden(path.Child("readExclusive"), "this server cannot hide fields: that requires proviso serve with the feature gate HiddenFields, and is not available beside a stock API server"))
	}
	at, err := fieldperm.ParsePath(spec.Field)
	if err != nil {
		return append(errs, field.Invalid(path.Child("field"), spec.Field, err.Error()))
	}
	for _, name := range spec.Resources {
		if r, err := fieldperm.ParseResource(name); err == nil && !r.All() {
			if err := f.checkPath(at, r); err != nil {
				errs = append(errs, field.Invalid(path.Child("field"), spec.Field, fmt.Sprintf("%s: %v", r, err)))
			} else if err := f.checkHidden(spec, at, r); err != nil {
				errs = append(errs, field.Invalid(path.Child("field"), spec.Field, fmt.Sprintf("%s: %v", r, err)))
			}
		}
	}
	return append(errs, f.checkTemplates(spec, at, path.Child("templates"))...)
}

// checkTemplates checks the templates that a declaration names.
func (f *rights) checkTemplates(spec policyv1alpha1.FieldPermissionSpec, at fieldperm.Path, path *field.Path) (errs field.ErrorList) {
	for i, named := range spec.Templates {
		r, err := fieldperm.ParseResource(named.Resource)
		if err != nil {
			continue // it was refused before
		}
		template, err := fieldperm.ParsePath(named.Field)
		if err == nil {
			err = f.checkPath(template, r)
		}
		if err == nil {
			err = f.checkHidden(spec, at.Under(template), r)
		}
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i).Child("field"), named.Field, fmt.Sprintf("%s: %v", r, err)))
		}
	}
	return errs
}

// checkPath reports whether a resource, if it is served, has a field.
func (f *rights) checkPath(at fieldperm.Path, r fieldperm.Resource) error {
	if err := f.fieldIn(f.store.Current().Served, r, at); !errors.Is(err, errNotServed) {
		return err
	}
	return nil
}

var errNotServed = errors.New("no such resource is served")

// fieldIn returns why a served resource does not have a field; nil if it has it. A kind without a schema has every
// field.
func (f *rights) fieldIn(served *snapshot.Served, r fieldperm.Resource, at fieldperm.Path) error {
	kind, ok := servedKind(served, r)
	if !ok {
		return errNotServed
	}
	t, ok, err := f.schemas.typeOf(kind)
	if err != nil || !ok {
		return err
	}
	return fieldperm.CheckPath(at, t)
}

// HasField is fieldIn for a path as the table shows it. A resource of another server, whose schema is not known here,
// has none: nothing that is sent there is checked here.
func (f *rights) HasField(served *snapshot.Served, r fieldperm.Resource, at string) bool {
	path, err := fieldperm.ParsePath(at)
	return err == nil && f.fieldIn(served, r, path) == nil
}

// servedKind is the kind of a resource in the version in which field permissions see it.
func servedKind(served *snapshot.Served, r fieldperm.Resource) (schema.GroupVersionKind, bool) {
	kind := schema.GroupKind{Group: r.Group, Kind: served.OwnKind(schema.GroupResource{Group: r.Group, Resource: r.Resource})}
	version := served.PreferredVersion(kind)
	return kind.WithVersion(version), version != ""
}

// before returns what an access review shows of field permissions: the exclusive fields that the caller may not change
// although the chain allows the verb (PA-8).
func (f *rights) before(ctx context.Context, attrs authorizer.Attributes) []accessreview.ChainElement {
	snap := authorize.SnapshotOf(ctx, f.store)
	if !authorize.HasFields(snap, attrs) {
		return nil
	}
	r := fieldperm.Resource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}
	kind, _ := servedKind(snap.Served, r)
	target := fieldperm.Target{Resource: r, Subresource: attrs.GetSubresource(), Version: kind.Version}
	conditions := snap.Fields.Conditions(target, func(verb string) (bool, error) {
		decision, _, err := f.gate.Chain.Authorize(ctx, authorize.WithVerb(attrs, verb))
		return decision == authorizer.DecisionAllow, err
	})
	if source := snap.Fields.Unreadable(r); source != "" && !f.gate.Chain.GrantedEverywhere(ctx, snap, attrs) {
		conditions = append(conditions, protectedattr.Condition{ID: "unreadable", Description: enforce.UnreadableReason(source), Expression: "true"})
	}
	if len(conditions) == 0 {
		return nil
	}
	var denies []authorizer.Condition
	for _, c := range conditions {
		denies = append(denies, authorizer.GenericCondition{ID: c.ID, Type: expr.TypeCEL, Condition: c.Expression, Description: c.Description})
	}
	return []accessreview.ChainElement{{Name: "field-permissions", Decision: authorizer.ConditionsAwareDecisionConditionsMap(denies, nil, nil)}}
}
