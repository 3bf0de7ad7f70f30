package cli

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

const reviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// askReview asks what the caller may do. A stock server cannot return a conditional answer, so the sidecar beside it
// refuses such a review; then the command asks the sidecar directly.
func askReview(ctx context.Context, rc *rest.RESTClient, review *reviewv1.SelfSubjectAccessReview) error {
	query := map[string]string{}
	if review.Spec.Time != nil {
		query["fieldValidation"] = "Strict" // a server that does not know the field would answer about now
	}
	err := postWith(ctx, rc, reviewPath, query, review)
	if !apierrors.IsForbidden(err) && (review.Spec.Time == nil || !apierrors.IsBadRequest(err)) {
		return err
	}
	question := &authz.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"}, Spec: authz.SubjectAccessReviewSpec{Trace: true, Time: review.Spec.Time},
	}
	path := "/apis/" + authz.SchemeGroupVersion.String()
	if a := review.Spec.ResourceAttributes; a != nil {
		question.Spec.Verb, question.Spec.ResourceName = a.Verb, a.Name
		question.Spec.ResourceKind = groupResource(a.Group, a.Resource)
		if a.Subresource != "" {
			question.Spec.ResourceKind += "/" + a.Subresource
		}
		if question.Namespace = a.Namespace; a.Namespace != "" {
			path += "/namespaces/" + a.Namespace
		}
	} else if p := review.Spec.NonResourceAttributes; p != nil {
		question.Spec.Verb, question.Spec.ResourceKind = p.Verb, p.Path
	}
	if postTo(ctx, rc, path+"/subjectaccessreviews", question) != nil || question.Status.Trace == nil {
		return err // there is no sidecar to ask: the first answer says more
	}
	review.Status = statusOf(&question.Status)
	review.Status.Until = question.Status.Until
	return nil
}

// statusOf is the answer of a sidecar as Proviso's own reviews would give it.
func statusOf(s *authz.SubjectAccessReviewStatus) reviewv1.SubjectAccessReviewStatus {
	out := reviewv1.SubjectAccessReviewStatus{}
	out.EvaluationError = s.EvaluationError
	switch s.Trace.Decision {
	case authz.AnswerAllow:
		out.Allowed, out.Reason = true, s.AllowReason
		return out
	case authz.AnswerDeny:
		out.Denied, out.Reason = true, s.DenyReason
		return out
	case authz.AnswerNoOpinion:
		out.Reason = s.DenyReason
		return out
	}
	for _, a := range s.Trace.Authorizers {
		set := reviewv1.SubjectAccessReviewConditionSet{AuthorizerName: a.Name}
		switch {
		case a.Answer == authz.AnswerAllow:
			set.Allowed, set.Reason = true, a.Reason
		case a.Answer == authz.AnswerDeny:
			set.Denied, set.Reason = true, a.Reason
		case a.Answer != authz.AnswerConditional || a.Name == notEnforced:
			continue
		}
		for _, c := range a.Conditions {
			set.Conditions = append(set.Conditions, conditionOf(c.Condition))
		}
		for _, r := range a.Rules {
			switch {
			case r.Yields || set.Allowed || set.Denied:
			case r.Condition == nil:
				set.Conditions = append(set.Conditions, reviewv1.SubjectAccessReviewCondition{ID: "rule", Effect: reviewv1.ConditionEffect(r.Effect), Condition: always, Description: r.Rule})
			case r.Condition.Value == authz.ConditionUnknown && r.Condition.Condition.Condition != "":
				set.Conditions = append(set.Conditions, conditionOf(r.Condition.Condition))
			}
		}
		out.ConditionsChain = append(out.ConditionsChain, set)
	}
	return out
}

func conditionOf(c authz.Condition) reviewv1.SubjectAccessReviewCondition {
	return reviewv1.SubjectAccessReviewCondition{ID: c.ID, Effect: reviewv1.ConditionEffect(c.Effect), Type: c.Type, Condition: c.Condition, Description: c.Description}
}
