package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +genclient:noStatus
// +genclient:skipVerbs=apply,deleteCollection
// +genclient:method=Approve,verb=create,subresource=approval,input=AccessDecision,result=AccessRequest
// +genclient:method=Revoke,verb=create,subresource=revocation,input=AccessDecision,result=AccessRequest
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AccessRequest asks for the role of an AccessRule, for the caller, in its namespace; in the master namespace, for the
// whole cluster. Its spec never changes. Deleting it gives up what it granted.
type AccessRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	Spec AccessRequestSpec `json:"spec"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`

	// status is what became of it. It is set by the server.
	// +optional
	Status AccessRequestStatus `json:"status,omitempty"`
}

// AccessRequestSpec is what is asked for.
type AccessRequestSpec struct {
	// ruleRef is the AccessRule that the request is made by.
	RuleRef AccessRuleRef `json:"ruleRef"`

	// durationSeconds is how long the role is wanted, from the later of notBefore and the last approval.
	DurationSeconds int64 `json:"durationSeconds"`

	// notBefore is when it is to begin, in whole seconds. Left out, it begins with the last approval.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`

	// reason says why, for those who approve and for the record.
	// +optional
	Reason string `json:"reason,omitempty"`

	// verbs limits what is granted to these verbs.
	// +optional
	// +listType=set
	Verbs []string `json:"verbs,omitempty"`

	// resourceKinds limits what is granted to these resources, as in rules of Policy: pods, pods/exec, deployments.apps
	// or Deployment. A custom resource is named with its group: widgets.example.com.
	// +optional
	// +listType=set
	ResourceKinds []string `json:"resourceKinds,omitempty"`

	// resourceNames limits what is granted to objects with these names.
	// +optional
	// +listType=set
	ResourceNames []string `json:"resourceNames,omitempty"`

	// once ends the grant with the first write that it made possible.
	// +optional
	Once bool `json:"once,omitempty"`

	// requester is who asks. It is set by the server.
	// +optional
	Requester AccessRequester `json:"requester,omitempty"`
}

// AccessRequester is a user as they were when they asked.
type AccessRequester struct {
	// username is the name of the user.
	// +optional
	Username string `json:"username,omitempty"`

	// uid tells users of the same name apart.
	// +optional
	UID string `json:"uid,omitempty"`

	// groups are the groups of the user.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`

	// extra is what else the authenticator said of the user.
	// +optional
	Extra map[string][]string `json:"extra,omitempty"`
}

// AccessRuleRef names an AccessRule.
type AccessRuleRef struct {
	// name is the name of the AccessRule.
	Name string `json:"name"`

	// uid is the uid of the AccessRule. It is set by the server.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// AccessState is what became of a request, in one word.
type AccessState string

// What becomes of requests.
const (
	AccessPending  AccessState = "Pending"
	AccessApproved AccessState = "Approved" // and begins later
	AccessActive   AccessState = "Active"
	AccessEnded    AccessState = "Ended"
	AccessDenied   AccessState = "Denied"
)

// Types of conditions of requests.
const (
	ConditionApproved = "Approved"
	ConditionDenied   = "Denied"
	ConditionActive   = "Active"
	ConditionEnded    = "Ended"
)

// AnnotationRequest names, in audit events, the AccessRequest that made a request possible: NAMESPACE/NAME.
const AnnotationRequest = GroupName + "/request"

// Reasons of conditions of requests.
const (
	ReasonApproved        = "Approved"
	ReasonBreakGlass      = "BreakGlass"
	ReasonDenied          = "Denied"
	ReasonNotApproved     = "NotApprovedInTime"
	ReasonSinkUnavailable = "SinkUnavailable"
	ReasonExpired         = "Expired"
	ReasonRevoked         = "Revoked"
	ReasonWithdrawn       = "Withdrawn"
	ReasonConsumed        = "Consumed"
)

// AccessRequestStatus is what became of a request.
type AccessRequestStatus struct {
	// state is a summary of the conditions at the time of reading.
	// +optional
	State AccessState `json:"state,omitempty"`

	// conditions are Approved, Denied, Active and Ended.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// approvals are those that were given. Approvals of an earlier generation of the rule do not count.
	// +optional
	// +listType=atomic
	Approvals []AccessApproval `json:"approvals,omitempty"`

	// pendingUntil is when the request is denied unless it is approved by then.
	// +optional
	PendingUntil *metav1.Time `json:"pendingUntil,omitempty"`

	// from is when the grant begins.
	// +optional
	From *metav1.Time `json:"from,omitempty"`

	// until is when the grant ends: at that instant it does not count any more.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// granted is the role and the conditions under which it was granted. Changes that widen the rule do not change it.
	// +optional
	Granted *AccessGrant `json:"granted,omitempty"`
}

// AccessApproval is one approval.
type AccessApproval struct {
	// by is the name of the user who approved.
	By string `json:"by"`

	// identity are the values of the rule's identityExtra that the user had.
	// +optional
	// +listType=atomic
	Identity []string `json:"identity,omitempty"`

	// time is when.
	Time metav1.Time `json:"time"`

	// ruleGeneration is the generation of the rule that was approved.
	RuleGeneration int64 `json:"ruleGeneration"`

	// comment is what the user said.
	// +optional
	Comment string `json:"comment,omitempty"`
}

// AccessGrant is what was granted, as the rule was then.
type AccessGrant struct {
	// roleRef is the role.
	RoleRef AccessRoleRef `json:"roleRef"`

	// specialVerbs says whether the grant has verbs that hand out rights.
	// +optional
	SpecialVerbs bool `json:"specialVerbs,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AccessRequestList is a list of access requests.
type AccessRequestList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the access requests.
	Items []AccessRequest `json:"items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AccessDecision approves, denies or revokes an access request.
type AccessDecision struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// requestUID is the uid of the request that is meant.
	RequestUID types.UID `json:"requestUID"`

	// decision is Approve or Deny. A revocation has none.
	// +optional
	Decision AccessVerdict `json:"decision,omitempty"`

	// comment is kept with the decision.
	// +optional
	Comment string `json:"comment,omitempty"`
}

// AccessVerdict is what a decision says to a request.
type AccessVerdict string

// What a decision can say to a request.
const (
	Approve AccessVerdict = "Approve"
	Deny    AccessVerdict = "Deny"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AccessUsage counts what one user has asked for. It is stored and not served.
type AccessUsage struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// userName is the user.
	UserName string `json:"userName"`

	// requests are those of the last day, and those that may not have ended.
	// +optional
	// +listType=atomic
	Requests []AccessUse `json:"requests,omitempty"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`
}

// AccessUse is one request of a user.
type AccessUse struct {
	// rule is the uid of the AccessRule.
	Rule types.UID `json:"rule"`

	// namespace, name and uid are those of the AccessRequest.
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`

	// time is when it was made.
	Time metav1.Time `json:"time"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AccessUsageList is a list of access usages.
type AccessUsageList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the access usages.
	Items []AccessUsage `json:"items"`
}
