package accessreview

import (
	"context"
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	serverstorage "k8s.io/apiserver/pkg/server/storage"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
	"proviso.dev/proviso/test/reviewtest"
)

// storages are the five reviews with a good question for each.
func storages(link *reviewtest.Scripted, t *testing.T) map[rest.Creater]runtime.Object {
	a := &answerer{chain: reviewtest.Chain(t, link), requests: unrestricted{}, sight: unrestricted{}}
	resource := &authorizationv1.ResourceAttributes{Namespace: "hammer", Verb: "get", Resource: "pods"}
	spec := reviewv1.SubjectAccessReviewSpec{SubjectAccessReviewSpec: authorizationv1.SubjectAccessReviewSpec{User: "edgar", ResourceAttributes: resource}}
	self := reviewv1.SelfSubjectAccessReviewSpec{SelfSubjectAccessReviewSpec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: resource}}
	return map[rest.Creater]runtime.Object{
		&subjectREST{answerer: a}: &reviewv1.SubjectAccessReview{Spec: spec},
		&selfREST{answerer: a}:    &reviewv1.SelfSubjectAccessReview{Spec: self},
		&localREST{answerer: a}:   &reviewv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer"}, Spec: spec},
		&rulesREST{rules: link}:   &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "hammer"}},
		&conditionsREST{}: &reviewv1alpha1.AuthorizationConditionsReview{Request: &reviewv1alpha1.AuthorizationConditionsRequest{Operation: "CREATE",
			ConditionSet: reviewv1.SubjectAccessReviewConditionSet{Conditions: []reviewv1.SubjectAccessReviewCondition{{ID: "a/b", Effect: "Allow"}}}}},
	}
}

func requestContext(t *testing.T) context.Context {
	return request.WithNamespace(request.WithUser(t.Context(), &user.DefaultInfo{Name: "alice"}), "hammer")
}

// CA-7: the enforcer sees reviews too: what validating admission refuses is not answered, and it cannot change the
// question.
func TestAdmissionOfReviews(t *testing.T) {
	link := &reviewtest.Scripted{Decision: allow}
	for storage, review := range storages(link, t) {
		_, err := storage.Create(requestContext(t), review, func(context.Context, runtime.Object) error { return errors.New("refused") }, nil)
		if err == nil || err.Error() != "refused" || len(link.Asked()) > 0 {
			t.Errorf("%T: got %v, want the refusal and no question to the authorizers", storage, err)
		}
		for _, admit := range []rest.ValidateObjectFunc{nil, func(_ context.Context, obj runtime.Object) error {
			if obj == review {
				t.Errorf("%T: admission was given the question itself", storage)
			}
			return nil
		}} {
			if _, err := storage.Create(requestContext(t), review, admit, nil); err != nil {
				t.Errorf("%T: got %v, want an answer", storage, err)
			}
		}
		link.Asked()
	}
}

// A question without its context, or of another kind, is a bad request and never a panic.
func TestBadContext(t *testing.T) {
	for storage, review := range storages(&reviewtest.Scripted{Decision: allow}, t) {
		_, err := storage.Create(requestContext(t), &metav1.Status{}, nil, nil)
		if !apierrors.IsBadRequest(err) {
			t.Errorf("%T: got %v for another kind, want a bad request", storage, err)
		}
		_, err = storage.Create(t.Context(), review, nil, nil)
		switch storage.(type) {
		case *selfREST, *rulesREST:
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "no user") {
				t.Errorf("%T: got %v without a user, want a bad request", storage, err)
			}
		case *localREST:
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "namespace is required") {
				t.Errorf("%T: got %v without a namespace, want a bad request", storage, err)
			}
			if _, err := storage.Create(request.WithNamespace(t.Context(), "other"), review, nil, nil); !apierrors.IsBadRequest(err) {
				t.Errorf("%T: got %v in another namespace, want a bad request", storage, err)
			}
		default:
			if err != nil {
				t.Errorf("%T: got %v, want an answer", storage, err)
			}
		}
	}
}

// A resource of v1 can be switched off as in Kubernetes; the review of conditions belongs to the feature.
func TestDisabledResources(t *testing.T) {
	p, err := New(Config{Chain: reviewtest.Chain(t, &reviewtest.Scripted{Decision: allow}), Requests: unrestricted{}, Sight: unrestricted{}})
	if err != nil {
		t.Fatal(err)
	}
	enabled := serverstorage.NewResourceConfig()
	info, err := p.NewRESTStorage(enabled, nil)
	if err != nil || info.VersionedResourcesStorageMap["v1"] != nil || len(info.VersionedResourcesStorageMap["v1alpha1"]) != 1 {
		t.Errorf("got %v, %v with nothing enabled, want v1alpha1 only", info.VersionedResourcesStorageMap, err)
	}
	enabled.EnableVersions(reviewv1.SchemeGroupVersion)
	enabled.DisableResources(reviewv1.SchemeGroupVersion.WithResource("subjectaccessreviews"))
	info, err = p.NewRESTStorage(enabled, nil)
	if v1 := info.VersionedResourcesStorageMap["v1"]; err != nil || len(v1) != 3 || v1["subjectaccessreviews"] != nil {
		t.Errorf("got %v, %v, want all but subjectaccessreviews", v1, err)
	}
}
