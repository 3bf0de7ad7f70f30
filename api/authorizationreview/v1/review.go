package v1

import (
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SubjectAccessReview checks whether or not a user or group can perform an action, and under which conditions.
type SubjectAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. It must be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds information about the request being evaluated.
	Spec SubjectAccessReviewSpec `json:"spec"`

	// status is filled in by the server and indicates whether the request is allowed or not.
	// +optional
	Status SubjectAccessReviewStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SelfSubjectAccessReview checks whether or not the current user can perform an action, and under which conditions.
type SelfSubjectAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. It must be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds information about the request being evaluated. user and groups must be empty.
	Spec SelfSubjectAccessReviewSpec `json:"spec"`

	// status is filled in by the server and indicates whether the request is allowed or not.
	// +optional
	Status SubjectAccessReviewStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// LocalSubjectAccessReview checks whether or not a user or group can perform an action in a given namespace, and under
// which conditions. Permission to create it can be given for one namespace.
type LocalSubjectAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. It must be empty except for the namespace.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds information about the request being evaluated. spec.resourceAttributes.namespace must be the namespace
	// of the request.
	Spec SubjectAccessReviewSpec `json:"spec"`

	// status is filled in by the server and indicates whether the request is allowed or not.
	// +optional
	Status SubjectAccessReviewStatus `json:"status,omitempty"`
}

// SubjectAccessReviewSpec is a description of the access request. Exactly one of resourceAttributes and
// nonResourceAttributes must be set.
type SubjectAccessReviewSpec struct {
	authorizationv1.SubjectAccessReviewSpec `json:",inline"`
	Question                                `json:",inline"`
}

// SelfSubjectAccessReviewSpec is a description of the access request. Exactly one of resourceAttributes and
// nonResourceAttributes must be set.
type SelfSubjectAccessReviewSpec struct {
	authorizationv1.SelfSubjectAccessReviewSpec `json:",inline"`
	Question                                    `json:",inline"`
}

// Question is how a caller asks for conditions, for newer policy, and about another time. A caller that asks for none
// of them is answered as Kubernetes answers.
type Question struct {
	// conditionalAuthorization asks for status.conditionsChain when the answer depends on the object. It must not be
	// set together with authorizationOptions.
	// +optional
	ConditionalAuthorization *ConditionalAuthorization `json:"conditionalAuthorization,omitempty"`

	// authorizationOptions asks for status.conditionalDecision when the answer depends on the object. It must not be
	// set together with conditionalAuthorization.
	// +optional
	AuthorizationOptions *AuthorizationOptions `json:"authorizationOptions,omitempty"`

	// atLeastRevision is a policy revision: the answer is given by policy that is at least as new, or refused with a
	// conflict if the server does not have it within two seconds. A write or deletion of policy is answered with its
	// revision in the header Proviso-Policy-Revision, and reviews with that in status.policyRevision.
	// +optional
	AtLeastRevision string `json:"atLeastRevision,omitempty"`

	// time is the instant that the question is about: role bindings and grants that begin or end count as they do then.
	// Without one the answer is about now.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// ConditionsMode is how much of a conditional answer is wanted.
// +enum
type ConditionsMode string

const (
	// HumanReadable asks every authorizer up to the first unconditional answer and gives text and descriptions.
	HumanReadable ConditionsMode = "HumanReadable"
	// Optimized stops at the first authorizer that can allow and leaves descriptions out.
	Optimized ConditionsMode = "Optimized"
)

// ConditionalAuthorization asks for the conditions of an answer.
type ConditionalAuthorization struct {
	// mode says how much is wanted: HumanReadable asks every authorizer up to the first unconditional answer and gives
	// descriptions, Optimized stops at the first authorizer that can allow and leaves descriptions out.
	Mode ConditionsMode `json:"mode"`
}

// AuthorizationOptions says what kinds of answer the caller understands.
type AuthorizationOptions struct {
	// handledDecisionTypes are the types of decision that the caller understands. With ConditionsMap and Union among
	// them a conditional answer is given as a tree; naming only one of the two is an error. Types that the server does
	// not know are ignored.
	// +optional
	// +listType=set
	HandledDecisionTypes []DecisionType `json:"handledDecisionTypes,omitempty"`
}
