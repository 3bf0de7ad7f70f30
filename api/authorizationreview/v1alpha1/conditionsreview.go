package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuthorizationConditionsReview asks what a set of conditions comes to for a given object. It is what the server
// answers, and what it sends to a webhook that answered with conditions. Nothing is stored.
type AuthorizationConditionsReview struct {
	metav1.TypeMeta `json:",inline"`

	// request is the question.
	// +optional
	Request *AuthorizationConditionsRequest `json:"request,omitempty"`

	// response is the answer. The evaluator of the conditions sets it.
	// +optional
	Response *AuthorizationConditionsResponse `json:"response,omitempty"`
}

// Operation is what is done to the object.
// +enum
type Operation string

const (
	// Create makes a new object.
	Create Operation = "CREATE"
	// Update changes an object.
	Update Operation = "UPDATE"
	// Delete deletes an object.
	Delete Operation = "DELETE"
	// Connect opens a connection to an object.
	Connect Operation = "CONNECT"
	// Impersonate makes a request in the name of another user. There is no object.
	Impersonate Operation = "IMPERSONATE"
)

// AuthorizationConditionsRequest is a set of conditions and what it is to be evaluated against.
type AuthorizationConditionsRequest struct {
	// operation is what is done to the object: CREATE, UPDATE, DELETE, CONNECT or IMPERSONATE. A patch is an UPDATE, or
	// a CREATE if there was no object.
	Operation Operation `json:"operation"`

	// object is the object as it is to be stored. There is none in a DELETE.
	// +optional
	Object runtime.RawExtension `json:"object,omitempty"`

	// oldObject is the stored object. There is one in an UPDATE and in a DELETE.
	// +optional
	OldObject runtime.RawExtension `json:"oldObject,omitempty"`

	// options are the options of the operation, such as CreateOptions or PodExecOptions.
	// +optional
	Options runtime.RawExtension `json:"options,omitempty"`

	// target is the pod, service or node that a CONNECT goes to.
	// +optional
	Target *runtime.RawExtension `json:"target,omitempty"`

	// impersonatedRequest is the request that is to be made in the name of another user. It is set if, and only if, the
	// operation is IMPERSONATE.
	// +optional
	ImpersonatedRequest *ImpersonatedRequest `json:"impersonatedRequest,omitempty"`

	// conditionSet is a set of conditions as an access review shows it.
	ConditionSet reviewv1.SubjectAccessReviewConditionSet `json:"conditionSet"`
}

// ImpersonatedRequest is a request that is to be made in the name of another user.
type ImpersonatedRequest struct {
	// verb is the verb of the request.
	Verb string `json:"verb"`

	// apiGroup is the group of the resource.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// apiVersion is the version of the resource.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// resource is the resource; it is empty for other URLs.
	// +optional
	Resource string `json:"resource,omitempty"`

	// subresource is the subresource, if any.
	// +optional
	Subresource string `json:"subresource,omitempty"`

	// namespace is the namespace of the object, if it has one.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object, if the request has one.
	// +optional
	Name string `json:"name,omitempty"`
}

// AuthorizationConditionsResponse is what a set of conditions comes to. If neither allowed nor denied is true, the set
// has no opinion and the next authorizer decides.
type AuthorizationConditionsResponse struct {
	// allowed is true if the conditions allow the request. It is never true together with denied.
	Allowed bool `json:"allowed"`

	// denied is true if the conditions deny the request.
	// +optional
	Denied bool `json:"denied,omitempty"`

	// reason says which condition decided.
	// +optional
	Reason string `json:"reason,omitempty"`

	// evaluationError says which conditions could not be evaluated. The answer takes that into account.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`

	// status says more about why a request is not allowed. A webhook may set it instead of reason; it is not read if
	// allowed is true.
	// +optional
	Status *metav1.Status `json:"status,omitempty"`

	// warnings are shown to the caller of a write. A webhook may set at most 8, of at most 256 bytes each; the server
	// sets none.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`

	// auditAnnotations are added to the audit event of the request, under the name of the authorizer and a slash. A
	// webhook may set at most 8, with values of at most 1,024 bytes; the server sets none.
	// +optional
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
}
