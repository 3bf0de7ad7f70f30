package registry

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/state/policycodec"
)

// review is a question that is asked by creating it. Nothing is stored.
type review[T object] struct {
	singular  string
	newObject func() T
	validate  func(T) field.ErrorList
	answer    func(ctx context.Context, namespace string, question T) error
}

var (
	_ rest.Creater              = &review[*noObject]{}
	_ rest.Scoper               = &review[*noObject]{}
	_ rest.SingularNameProvider = &review[*noObject]{}
)

// New returns an empty question.
func (r *review[T]) New() runtime.Object { return r.newObject() }

// Destroy does nothing.
func (*review[T]) Destroy() {}

// NamespaceScoped is true. ServeClusterReviews also lets the question be asked without a namespace.
func (*review[T]) NamespaceScoped() bool { return true }

// GetSingularName is the singular of the resource.
func (r *review[T]) GetSingularName() string { return r.singular }

// Create answers the question.
func (r *review[T]) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	question, ok := obj.(T)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a %s: %T", r.singular, obj))
	}
	kinds, _, err := policycodec.Scheme.ObjectKinds(question)
	if err != nil {
		return nil, err
	}
	if errs := r.validate(question); len(errs) > 0 {
		return nil, apierrors.NewInvalid(kinds[0].GroupKind(), question.GetName(), few(errs))
	}
	if validation != nil {
		if err := validation(ctx, question.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	if err := r.answer(ctx, request.NamespaceValue(ctx), question); err != nil {
		return nil, err
	}
	return question, nil
}

// renewed is the context with policy that is as new as the question wants, and the revision of that.
func renewed(ctx context.Context, cfg Config, atLeast string) (context.Context, string, error) {
	switch {
	case cfg.Fresh != nil:
		return cfg.Fresh.Renew(ctx, atLeast)
	case atLeast != "":
		return nil, "", apierrors.NewBadRequest("spec.atLeastRevision: the policy of this server has no revisions")
	}
	return ctx, "", nil
}

func resourceAccessReviews(cfg Config) *review[*authz.ResourceAccessReview] {
	return &review[*authz.ResourceAccessReview]{
		singular:  "resourceaccessreview",
		newObject: func() *authz.ResourceAccessReview { return &authz.ResourceAccessReview{} },
		validate: func(r *authz.ResourceAccessReview) field.ErrorList {
			errs := question(r.Spec.Verb, r.Spec.ResourceKind)
			if r.Spec.Limit < 0 {
				errs = append(errs, field.Invalid(field.NewPath("spec", "limit"), r.Spec.Limit, "want how many to list at most, or 0 for all"))
			}
			return errs
		},
		answer: func(ctx context.Context, namespace string, r *authz.ResourceAccessReview) error {
			ctx, revision, err := renewed(ctx, cfg, r.Spec.AtLeastRevision)
			if err != nil {
				return err
			}
			r.Status, err = cfg.Reviewer.WhoCan(ctx, namespace, r.Spec)
			r.Status.PolicyRevision = revision
			return err
		},
	}
}

func subjectAccessReviews(cfg Config) *review[*authz.SubjectAccessReview] {
	return &review[*authz.SubjectAccessReview]{
		singular:  "subjectaccessreview",
		newObject: func() *authz.SubjectAccessReview { return &authz.SubjectAccessReview{} },
		validate: func(r *authz.SubjectAccessReview) field.ErrorList {
			errs := question(r.Spec.Verb, r.Spec.ResourceKind)
			if r.Spec.UserName != "" && r.Spec.GroupName != "" {
				errs = append(errs, field.Forbidden(field.NewPath("spec", "groupName"), "give userName or groupName, or neither to ask for yourself"))
			}
			return errs
		},
		answer: func(ctx context.Context, namespace string, r *authz.SubjectAccessReview) error {
			caller, ok := request.UserFrom(ctx)
			if !ok {
				return apierrors.NewBadRequest("no user in the request")
			}
			ctx, revision, err := renewed(ctx, cfg, r.Spec.AtLeastRevision)
			if err != nil {
				return err
			}
			r.Status, err = cfg.Reviewer.SubjectCan(ctx, caller, namespace, r.Spec)
			r.Status.PolicyRevision = revision
			return err
		},
	}
}

// question checks what both reviews ask about: one verb on one resource or path, or all of them.
func question(verb, resourceKind string) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	switch {
	case strings.TrimSpace(verb) == "":
		errs = append(errs, field.Required(spec.Child("verb"), "name the verb that is asked about"))
	case strings.HasPrefix(verb, "-"):
		errs = append(errs, field.Invalid(spec.Child("verb"), verb, "ask about one verb"))
	}
	switch {
	case strings.TrimSpace(resourceKind) == "":
		errs = append(errs, field.Required(spec.Child("resourceKind"), "name the resource that is asked about, such as pods or deployments.apps"))
	case resourceKind == "*":
	case strings.Contains(resourceKind, "*") || strings.HasPrefix(resourceKind, "-"):
		errs = append(errs, field.Invalid(spec.Child("resourceKind"), resourceKind, `ask about one resource or path, or "*" for all resources`))
	}
	return errs
}
