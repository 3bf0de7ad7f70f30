package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +genclient
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// SubjectAccessReview asks whether a user or a group can do something. It is created in a namespace, to ask about that
// namespace, or without one, to ask about all namespaces and cluster-scoped resources. The answer is in the status of
// what comes back; nothing is stored.
type SubjectAccessReview struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. Only the namespace has a meaning.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the question.
	Spec SubjectAccessReviewSpec `json:"spec"`

	// status is the answer. It is set by the server.
	// +optional
	Status SubjectAccessReviewStatus `json:"status,omitempty"`
}

// SubjectAccessReviewSpec asks whether a user or a group can use a verb on a resource.
type SubjectAccessReviewSpec struct {
	// verb is the verb that is asked about, such as get, list, create, update, delete.
	Verb string `json:"verb"`

	// resourceKind is the resource that is asked about: a plural (pods, pods/exec, deployments.apps) or a kind (Pod),
	// in any case; or a path outside of resources, such as /metrics; or * for all resources.
	ResourceKind string `json:"resourceKind"`

	// resourceName is the name of the object that is asked about.
	// +optional
	ResourceName string `json:"resourceName,omitempty"`

	// userName is the user that is asked about. It excludes groupName; with neither, it is the caller, with all groups.
	// +optional
	UserName string `json:"userName,omitempty"`

	// groupName is the group that is asked about, as an unnamed member of it. It excludes userName.
	// +optional
	GroupName string `json:"groupName,omitempty"`

	// content is the object that conditions are evaluated against, which makes the answer final: the object on create,
	// the stored object on delete, both on update. Without it a conditional right counts as none. The stored object
	// itself is never read.
	// +optional
	Content *runtime.RawExtension `json:"content,omitempty"`

	// oldContent is the stored object on update, if it is not the same as content: content is then what it would
	// become. The caller provides it; the server never reads it.
	// +optional
	OldContent *runtime.RawExtension `json:"oldContent,omitempty"`

	// trace asks also for how the decision came about.
	// +optional
	Trace bool `json:"trace,omitempty"`

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

// SubjectAccessReviewStatus says whether the subject can. allowReason and denyReason can both be set: one rule allows
// what another denies.
type SubjectAccessReviewStatus struct {
	// allowed is true if the subject can.
	Allowed bool `json:"allowed"`

	// allowReason says which rule allows it.
	// +optional
	AllowReason string `json:"allowReason,omitempty"`

	// denyReason says which rule denies it, or that none allows it.
	// +optional
	DenyReason string `json:"denyReason,omitempty"`

	// evaluationError says what went wrong while the question was evaluated.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// policyRevision is the revision of the policy that the answer was given by, for spec.atLeastRevision of other
	// questions. It says nothing else.
	// +optional
	PolicyRevision string `json:"policyRevision,omitempty"`

	// until is when the answer changes next, as far as bindings that begin or end tell. It is left out if that is not
	// known, or never.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// trace is how the decision came about. It is filled when spec.trace is true.
	// +optional
	Trace *DecisionTrace `json:"trace,omitempty"`
}
