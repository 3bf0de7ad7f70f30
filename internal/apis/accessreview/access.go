package accessreview

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/request/requestctx"
)

// subjectREST answers SubjectAccessReview: may that user or group do this?
type subjectREST struct {
	stateless
	*answerer
}

var _ rest.Creater = &subjectREST{}

func (r *subjectREST) New() runtime.Object { return &reviewv1.SubjectAccessReview{} }

func (r *subjectREST) Create(ctx context.Context, obj runtime.Object, admit rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*reviewv1.SubjectAccessReview)
	if !ok {
		return nil, notA("SubjectAccessReview", obj)
	}
	if err := invalid(nameless, validateSubject(review)); err != nil {
		return nil, err
	}
	if err := admitted(ctx, review, admit); err != nil {
		return nil, err
	}
	spec := &review.Spec
	attrs := attributesOf(subjectOf(&spec.SubjectAccessReviewSpec), spec.ResourceAttributes, spec.NonResourceAttributes)
	return review, r.fill(requestctx.AboutOthers(ctx), &review.Status, attrs, &spec.Question, formOf(&spec.Question))
}

// selfREST answers SelfSubjectAccessReview: may I do this?
type selfREST struct {
	stateless
	*answerer
}

var _ rest.Creater = &selfREST{}

func (r *selfREST) New() runtime.Object { return &reviewv1.SelfSubjectAccessReview{} }

func (r *selfREST) Create(ctx context.Context, obj runtime.Object, admit rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*reviewv1.SelfSubjectAccessReview)
	if !ok {
		return nil, notA("SelfSubjectAccessReview", obj)
	}
	if err := invalid(nameless, validateSelf(review)); err != nil {
		return nil, err
	}
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	if err := admitted(ctx, review, admit); err != nil {
		return nil, err
	}
	spec := &review.Spec
	attrs := attributesOf(who, spec.ResourceAttributes, spec.NonResourceAttributes)
	form := formOf(&spec.Question)
	if form == unconditional {
		form = own
	}
	return review, r.fill(ctx, &review.Status, attrs, &spec.Question, form)
}

// localREST answers LocalSubjectAccessReview: may that user or group do this in this namespace?
type localREST struct {
	stateless
	*answerer
}

var _ rest.Creater = &localREST{}

func (r *localREST) New() runtime.Object { return &reviewv1.LocalSubjectAccessReview{} }

func (r *localREST) Create(ctx context.Context, obj runtime.Object, admit rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*reviewv1.LocalSubjectAccessReview)
	if !ok {
		return nil, notA("LocalSubjectAccessReview", obj)
	}
	if err := invalid(nameless, validateLocal(review)); err != nil {
		return nil, err
	}
	namespace := request.NamespaceValue(ctx)
	if namespace == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("namespace is required on this type: %v", namespace))
	}
	if namespace != review.Namespace {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.resourceAttributes.namespace must match namespace: %v", namespace))
	}
	if err := admitted(ctx, review, admit); err != nil {
		return nil, err
	}
	spec := &review.Spec
	attrs := attributesOf(subjectOf(&spec.SubjectAccessReviewSpec), spec.ResourceAttributes, spec.NonResourceAttributes)
	form, view, others := formOf(&spec.Question), r.sight.Of(ctx, attrs), requestctx.AboutOthers(ctx)
	if form == unconditional || view.Whole() {
		return review, r.fill(others, &review.Status, attrs, &spec.Question, form)
	}
	if err := r.without().fill(others, &review.Status, attrs, &spec.Question, form); err != nil {
		return nil, err
	}
	withhold(&review.Status, view)
	return review, nil
}

func notA(kind string, obj runtime.Object) error {
	return apierrors.NewBadRequest(fmt.Sprintf("not a %s: %T", kind, obj))
}

// nameless is the kind in the errors of the access reviews: Kubernetes forgets it when it converts to its internal
// types.
const nameless = ""

// invalid makes a 422 of validation errors.
func invalid(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: reviewv1.GroupName, Kind: kind}, "", errs)
}

// admitted runs validating admission, on a copy that it cannot use to change the question.
func admitted(ctx context.Context, obj runtime.Object, admit rest.ValidateObjectFunc) error {
	if admit == nil {
		return nil
	}
	return admit(ctx, obj.DeepCopyObject())
}
