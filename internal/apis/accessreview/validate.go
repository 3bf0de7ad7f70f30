package accessreview

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// The checks, their order and their messages are those of Kubernetes, so clients see no difference. Our own checks, of
// how conditions are asked for, come last.

func validateSubject(r *reviewv1.SubjectAccessReview) field.ErrorList {
	errs := validateSpec(&r.Spec.SubjectAccessReviewSpec)
	if !bare(r.ObjectMeta) {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), r.ObjectMeta, "must be empty"))
	}
	return append(errs, validateQuestion(&r.Spec.Question)...)
}

func validateSelf(r *reviewv1.SelfSubjectAccessReview) field.ErrorList {
	errs := validateAttributes(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
	errs = append(errs, validateSelectors(r.Spec.ResourceAttributes)...)
	if !bare(r.ObjectMeta) {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), r.ObjectMeta, "must be empty"))
	}
	return append(errs, validateQuestion(&r.Spec.Question)...)
}

func validateLocal(r *reviewv1.LocalSubjectAccessReview) field.ErrorList {
	errs := validateSpec(&r.Spec.SubjectAccessReviewSpec)
	meta := r.ObjectMeta
	meta.Namespace = ""
	if !bare(meta) {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), r.ObjectMeta, "must be empty except for namespace"))
	}
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if a := r.Spec.NonResourceAttributes; a != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), untagged(a), "disallowed on this kind of request"))
	}
	return append(errs, validateQuestion(&r.Spec.Question)...)
}

func validateSpec(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateAttributes(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return append(errs, validateSelectors(spec.ResourceAttributes)...)
}

func validateAttributes(resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) field.ErrorList {
	if (resource == nil) != (path == nil) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec"), untagged(path),
		"exactly one of nonResourceAttributes or resourceAttributes must be specified")}
}

// pathAttributes are Kubernetes' internal type: the messages show it with the names of its fields in Go.
type pathAttributes struct {
	Path string
	Verb string
}

func untagged(a *authorizationv1.NonResourceAttributes) *pathAttributes { return (*pathAttributes)(a) }

// bare reports whether there is no metadata, except for managed fields: those the handler sets before it asks.
func bare(meta metav1.ObjectMeta) bool {
	meta.ManagedFields = nil
	return apiequality.Semantic.DeepEqual(metav1.ObjectMeta{}, meta)
}

// validateSelectors accepts operators that are not known: a newer client may know more operators, and an unknown one
// only makes the question broader.
func validateSelectors(resource *authorizationv1.ResourceAttributes) field.ErrorList {
	if resource == nil {
		return nil
	}
	var errs field.ErrorList
	path := field.NewPath("spec.resourceAttributes")
	if s, path := resource.FieldSelector, path.Child("fieldSelector"); s != nil {
		errs = append(errs, validateSelector(s.RawSelector, len(s.Requirements), path)...)
		for i, r := range s.Requirements {
			errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(r,
				metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	if s, path := resource.LabelSelector, path.Child("labelSelector"); s != nil {
		errs = append(errs, validateSelector(s.RawSelector, len(s.Requirements), path)...)
		for i, r := range s.Requirements {
			errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(r,
				metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	return errs
}

func validateSelector(raw string, requirements int, path *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(path.Child("requirements"),
			fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path))}
	}
	return nil
}
