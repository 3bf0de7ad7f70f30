package v1

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SubjectAccessReviewStatus is the answer to an access review. If it is conditional, allowed and denied are both false
// and either conditionsChain or conditionalDecision says what it depends on.
type SubjectAccessReviewStatus struct {
	authorizationv1.SubjectAccessReviewStatus `json:",inline"`

	// conditionsChain is set, if spec.conditionalAuthorization asks for it, when the answer depends on the object. It
	// lists what the authorizers answered, in the order in which they are asked: the first that allows or denies
	// decides. Authorizers without an opinion are left out.
	// +optional
	// +listType=atomic
	ConditionsChain []SubjectAccessReviewConditionSet `json:"conditionsChain,omitempty"`

	// conditionalDecision is set, if spec.authorizationOptions asks for it, when the answer depends on the object. Its
	// type is ConditionsMap or Union.
	// +optional
	ConditionalDecision *ConditionsAwareDecision `json:"conditionalDecision,omitempty"`

	// authorizationDecision says who decided, if spec.conditionalAuthorization or spec.authorizationOptions asks for
	// more than Kubernetes' answer and the answer depends on no condition.
	// +optional
	AuthorizationDecision *AuthorizationDecision `json:"authorizationDecision,omitempty"`

	// policyRevision is the revision of the policy that the answer was given by, for spec.atLeastRevision of other
	// questions. It says nothing else.
	// +optional
	PolicyRevision string `json:"policyRevision,omitempty"`

	// until is when the answer changes next because role bindings or grants of the subject begin or end. It is set only
	// if spec asks for more than Kubernetes' answer.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// FailureMode is what follows when a Deny condition cannot be evaluated.
// +enum
type FailureMode string

const (
	// FailureModeDeny denies the request.
	FailureModeDeny FailureMode = "Deny"
	// FailureModeNoOpinion leaves the request to the next authorizer.
	FailureModeNoOpinion FailureMode = "NoOpinion"
)

// SubjectAccessReviewConditionSet is what one authorizer answered: allowed, denied, or a set of conditions.
type SubjectAccessReviewConditionSet struct {
	// authorizerName is the authorizer that answered. Parts of the answer of one authorizer are named authorizer/part.
	// +optional
	AuthorizerName string `json:"authorizerName,omitempty"`

	// allowed is true if the authorizer allows, whatever the object is.
	// +optional
	Allowed bool `json:"allowed,omitempty"`

	// denied is true if the authorizer denies, whatever the object is.
	// +optional
	Denied bool `json:"denied,omitempty"`

	// reason says why the authorizer allows or denies.
	// +optional
	Reason string `json:"reason,omitempty"`

	// failureMode says what follows when a Deny condition cannot be evaluated: Deny, which is the default, or
	// NoOpinion. It is only set together with conditions.
	// +optional
	FailureMode FailureMode `json:"failureMode,omitempty"`

	// conditions are evaluated together, against the object: a Deny that is met denies; otherwise, a NoOpinion that is
	// met or fails leaves the request to the next authorizer; otherwise, an Allow that is met allows; otherwise, the
	// next authorizer decides.
	// +optional
	// +listType=map
	// +listMapKey=id
	Conditions []SubjectAccessReviewCondition `json:"conditions,omitempty"`
}

// ConditionEffect is what follows when a condition is met.
// +enum
type ConditionEffect string

const (
	// EffectAllow allows the request.
	EffectAllow ConditionEffect = "Allow"
	// EffectDeny denies the request.
	EffectDeny ConditionEffect = "Deny"
	// EffectNoOpinion leaves the request to the next authorizer.
	EffectNoOpinion ConditionEffect = "NoOpinion"
)

// SubjectAccessReviewCondition is one condition of a set.
type SubjectAccessReviewCondition struct {
	// id identifies the condition in its set: a label key, with or without a domain.
	ID string `json:"id"`

	// effect is what follows when the condition is met: Allow, Deny or NoOpinion.
	Effect ConditionEffect `json:"effect"`

	// type is the language of the condition, such as k8s.io/authorization-cel.
	// +optional
	Type string `json:"type,omitempty"`

	// condition is the text of the condition, of at most 10,240 bytes.
	// +optional
	Condition string `json:"condition,omitempty"`

	// description says the condition in words, in at most 1,024 bytes.
	// +optional
	Description string `json:"description,omitempty"`
}
