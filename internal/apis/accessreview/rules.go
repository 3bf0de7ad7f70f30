package accessreview

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
)

// rulesREST answers SelfSubjectRulesReview: what may I do in this namespace? The answer has no place for conditions and
// denies; the authorizers mark it incomplete where they have some (PO-16).
type rulesREST struct {
	stateless
	rules authorizer.RuleResolver
}

var _ rest.Creater = &rulesREST{}

func (r *rulesREST) New() runtime.Object { return &authorizationv1.SelfSubjectRulesReview{} }

func (r *rulesREST) Create(ctx context.Context, obj runtime.Object, admit rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	review, ok := obj.(*authorizationv1.SelfSubjectRulesReview)
	if !ok {
		return nil, notA("SelfSubjectRulesReview", obj)
	}
	who, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	if review.Spec.Namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	if err := admitted(ctx, review, admit); err != nil {
		return nil, err
	}
	resources, paths, incomplete, err := r.rules.RulesFor(ctx, who, review.Spec.Namespace)
	// The lists are empty rather than null, and the question is not repeated, as in Kubernetes.
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    make([]authorizationv1.ResourceRule, 0, len(resources)),
		NonResourceRules: make([]authorizationv1.NonResourceRule, 0, len(paths)),
		Incomplete:       incomplete,
	}
	if err != nil {
		status.EvaluationError = err.Error()
	}
	for _, rule := range resources {
		status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: rule.GetVerbs(), APIGroups: rule.GetAPIGroups(), Resources: rule.GetResources(), ResourceNames: rule.GetResourceNames(),
		})
	}
	for _, rule := range paths {
		status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{
			Verbs: rule.GetVerbs(), NonResourceURLs: rule.GetNonResourceURLs(),
		})
	}
	return &authorizationv1.SelfSubjectRulesReview{Status: status}, nil
}
