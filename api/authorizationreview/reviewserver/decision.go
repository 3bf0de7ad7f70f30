package reviewserver

import (
	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// TypeCEL is the type of condition that the API server evaluates itself, without asking again.
const TypeCEL = "k8s.io/authorization-cel"

// Decision is the answer to an access review. The zero value denies.
type Decision struct {
	allowed, abstains bool
	reason            string
	set               *reviewv1.SubjectAccessReviewConditionSet
}

// Allow allows the request, whatever the object is.
func Allow(reason string) Decision { return Decision{allowed: true, reason: reason} }

// Deny denies the request, whatever the object is. Authorizers that stand behind this one are not asked.
func Deny(reason string) Decision { return Decision{reason: reason} }

// NoOpinion leaves the request to the next authorizer.
func NoOpinion(reason string) Decision { return Decision{abstains: true, reason: reason} }

// Under makes the request depend on conditions. A Deny that cannot be evaluated denies. An API server that does not
// understand conditions is told what they come to without an object: Deny if one of them can deny, else no opinion.
func Under(conditions ...reviewv1.SubjectAccessReviewCondition) Decision {
	return UnderWith(reviewv1.FailureModeDeny, conditions...)
}

// UnderWith is Under with another failure mode: what follows if a Deny cannot be evaluated.
func UnderWith(mode reviewv1.FailureMode, conditions ...reviewv1.SubjectAccessReviewCondition) Decision {
	return Decision{set: &reviewv1.SubjectAccessReviewConditionSet{FailureMode: mode, Conditions: conditions}}
}

// CEL is a condition in Kubernetes' own language. Its variables are those of a rule of Policy.
func CEL(id string, effect reviewv1.ConditionEffect, expression, description string) reviewv1.SubjectAccessReviewCondition {
	return reviewv1.SubjectAccessReviewCondition{ID: id, Effect: effect, Type: TypeCEL, Condition: expression, Description: description}
}
