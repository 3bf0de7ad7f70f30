package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResourceAccessReview asks who can do something. It is created in a namespace, to ask about that namespace, or without
// one, to ask about all namespaces and cluster-scoped resources. The answer is in the status of what comes back;
// nothing is stored.
type ResourceAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. Only the namespace has a meaning.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	Spec ResourceAccessReviewSpec `json:"spec"`

	// status is the answer. It is set by the server.
	// +optional
	Status ResourceAccessReviewStatus `json:"status,omitempty"`
}

// ResourceAccessReviewSpec asks who can use a verb on a resource.
type ResourceAccessReviewSpec struct {
	// verb is the verb that is asked about, such as get, list, create, update, delete.
	Verb string `json:"verb"`

	// resourceKind is the resource that is asked about: a plural (pods, pods/exec, deployments.apps) or a kind (Pod),
	// in any case; or a path outside of resources, such as /metrics; or * for all resources.
	ResourceKind string `json:"resourceKind"`

	// resourceName limits the question to the object of that name. Left out, the question is about every name.
	// +optional
	ResourceName string `json:"resourceName,omitempty"`

	// includeBlocked asks also for those who are given the right and lose it again through a deny rule.
	// +optional
	IncludeBlocked bool `json:"includeBlocked,omitempty"`

	// includeRules asks also by which rules the users and groups of the answer can, or cannot.
	// +optional
	IncludeRules bool `json:"includeRules,omitempty"`

	// nameContains limits the answer to users and groups that have this text in their name, in any case.
	// +optional
	NameContains string `json:"nameContains,omitempty"`

	// limit is how many users and groups the answer lists at most. If there may be more, status.continue is set. 0 is
	// no limit.
	// +optional
	Limit int64 `json:"limit,omitempty"`

	// continue is status.continue of the answer before, to get the next part. The rest of the question has to be the
	// same. Every part is right at the time when it is asked for: policy that changes between two parts changes the
	// parts that are still to come.
	// +optional
	Continue string `json:"continue,omitempty"`

	// atLeastRevision is a policy revision: the answer is given by policy that is at least as new, or refused with a
	// conflict if the server does not have it within two seconds. A write or deletion of policy is answered with its
	// revision in the header Proviso-Policy-Revision, and reviews with that in status.policyRevision.
	// +optional
	AtLeastRevision string `json:"atLeastRevision,omitempty"`

	// time is the instant that is asked about; left out, it is now. What begins or ends counts as it does then; who may
	// ask, and what the caller may see of the answer, is decided now.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// ResourceAccessReviewStatus says who can. A user is judged with system:authenticated as its only group, and a group as
// an unnamed member of it, since the server does not know who is in which group.
type ResourceAccessReviewStatus struct {
	// userNames are the users that can, always.
	// +optional
	// +listType=atomic
	UserNames []string `json:"userNames,omitempty"`

	// groupNames are the groups whose members can, always.
	// +optional
	// +listType=atomic
	GroupNames []string `json:"groupNames,omitempty"`

	// conditional are the users and groups that can under conditions.
	// +optional
	// +listType=atomic
	Conditional []ConditionalSubject `json:"conditional,omitempty"`

	// blockedBy are the users and groups that cannot because of a deny rule, with that rule. It is filled when
	// spec.includeBlocked is true.
	// +optional
	// +listType=atomic
	BlockedBy []BlockedSubject `json:"blockedBy,omitempty"`

	// rules are the rules behind the answer, for each of its users and groups. It is filled when spec.includeRules is
	// true.
	// +optional
	// +listType=atomic
	Rules []SubjectRules `json:"rules,omitempty"`

	// continue is set if the answer may go on: ask again with it as spec.continue. It means nothing to anybody but the
	// server.
	// +optional
	Continue string `json:"continue,omitempty"`

	// remainingAtMost is how many users and groups may follow. It is an upper bound: those who follow have not been
	// looked at.
	// +optional
	RemainingAtMost int64 `json:"remainingAtMost,omitempty"`

	// incomplete is true when some authorizer of the server, such as a webhook, cannot be asked for all it would allow.
	// There may then be others who can.
	// +optional
	Incomplete bool `json:"incomplete,omitempty"`

	// incompleteReason says why the answer is incomplete.
	// +optional
	IncompleteReason string `json:"incompleteReason,omitempty"`

	// evaluationError says what went wrong while the question was evaluated, such as a role binding whose role does not
	// exist. The rest of the answer holds all the same.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// policyRevision is the revision of the policy that the answer was given by, for spec.atLeastRevision of other
	// questions. It says nothing else.
	// +optional
	PolicyRevision string `json:"policyRevision,omitempty"`
}

// SubjectRules are the rules that apply to the question for a user or group.
type SubjectRules struct {
	// userName is the user. Either it or groupName is set.
	// +optional
	UserName string `json:"userName,omitempty"`

	// groupName is the group. Either it or userName is set.
	// +optional
	GroupName string `json:"groupName,omitempty"`

	// rules are the rules, those that deny first. There are none for system:masters, which no rule is asked about.
	// +optional
	// +listType=atomic
	Rules []RuleTrace `json:"rules,omitempty"`

	// moreRules is how many further rules apply that are not listed.
	// +optional
	MoreRules int32 `json:"moreRules,omitempty"`
}

// ConditionalSubject is a user or group that can under conditions.
type ConditionalSubject struct {
	// userName is the user. Either it or groupName is set.
	// +optional
	UserName string `json:"userName,omitempty"`

	// groupName is the group. Either it or userName is set.
	// +optional
	GroupName string `json:"groupName,omitempty"`

	// conditions are the conditions: no Deny may be met, and one Allow has to be.
	// +listType=atomic
	Conditions []Condition `json:"conditions"`

	// narrowedTo is the selector that the server adds to a list or watch of this subject, or why it refuses the list.
	// It is empty for other verbs.
	// +optional
	NarrowedTo string `json:"narrowedTo,omitempty"`
}

// BlockedSubject is a user or group that a deny rule keeps from what an allow rule gives it.
type BlockedSubject struct {
	// userName is the user. Either it or groupName is set.
	// +optional
	UserName string `json:"userName,omitempty"`

	// groupName is the group. Either it or userName is set.
	// +optional
	GroupName string `json:"groupName,omitempty"`

	// binding is the role binding that brings the deny rule in, as namespace/name.
	Binding string `json:"binding"`

	// rule says which deny rule it is: the role, as namespace/name, the position of the rule, and what it denies.
	Rule string `json:"rule"`

	// conditions are the conditions under which the deny rule applies. Empty means always.
	// +optional
	// +listType=atomic
	Conditions []Condition `json:"conditions,omitempty"`
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

// Condition is one condition of a decision.
type Condition struct {
	// id identifies the condition in its set. It is shown in refusals.
	ID string `json:"id"`

	// effect is what follows when the condition is met: Allow, Deny or NoOpinion.
	Effect ConditionEffect `json:"effect"`

	// type is the language of the condition, such as k8s.io/authorization-cel.
	// +optional
	Type string `json:"type,omitempty"`

	// condition is the text of the condition: what is left of the rule's expression when everything that is known about
	// the request has been put in.
	// +optional
	Condition string `json:"condition,omitempty"`

	// description is the description of the rule.
	// +optional
	Description string `json:"description,omitempty"`
}
