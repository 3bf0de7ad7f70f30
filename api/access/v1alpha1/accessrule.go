package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AccessRule says who may ask for which role, where, for how long, and who has to approve it. Writing one takes what
// binding the role takes.
type AccessRule struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what can be asked for, by whom.
	Spec AccessRuleSpec `json:"spec"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`
}

// AccessRuleSpec is what can be asked for, by whom.
type AccessRuleSpec struct {
	// subjects are those who may ask.
	Subjects Subjects `json:"subjects"`

	// roleRef is the role that is asked for: a ClusterRole of RBAC, or a role of the master policy.
	RoleRef AccessRoleRef `json:"roleRef"`

	// namespaces are the names of the namespaces that can be asked for; "*" is all of them, and the name of the master
	// namespace is the whole cluster.
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`

	// namespaceSelector selects the namespaces that can be asked for by their labels, in place of namespaces. A
	// namespace whose labels change leaves the active grants of the rule.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// maxDurationSeconds is the longest time that can be asked for.
	MaxDurationSeconds int64 `json:"maxDurationSeconds"`

	// pendingSeconds is how long a request waits for its approvals before it is denied: 86400, a day, if left out.
	// +optional
	PendingSeconds *int64 `json:"pendingSeconds,omitempty"`

	// reason says what the reason of a request has to be.
	// +optional
	Reason *ReasonRule `json:"reason,omitempty"`

	// approvals say who has to approve a request. A rule has either approvals or breakGlass.
	// +optional
	Approvals *ApprovalRule `json:"approvals,omitempty"`

	// breakGlass lets requests become active without an approval, once every sink of auditSinks has been told.
	// +optional
	BreakGlass bool `json:"breakGlass,omitempty"`

	// auditSinks are the AuditSinks that are told of each request by a rule with breakGlass, and get every request that
	// such a grant made possible.
	// +optional
	// +listType=set
	AuditSinks []string `json:"auditSinks,omitempty"`

	// whenSinkDown is Deny (the default), or Spool to let a request become active once its event is in the spool of
	// each sink.
	// +optional
	WhenSinkDown WhenSinkDown `json:"whenSinkDown,omitempty"`

	// limits are limits for each requester.
	// +optional
	Limits *AccessLimits `json:"limits,omitempty"`

	// specialVerbs lets grants of this rule hand out rights: escalate, bind, deny, approve and impersonate. Otherwise
	// grants do not have these verbs, whatever the role says.
	// +optional
	SpecialVerbs bool `json:"specialVerbs,omitempty"`
}

// Subjects are users and groups.
type Subjects struct {
	// userNames are names of users; a service account is system:serviceaccount:NAMESPACE:NAME.
	// +optional
	// +listType=set
	UserNames []string `json:"userNames,omitempty"`

	// groupNames are names of groups.
	// +optional
	// +listType=set
	GroupNames []string `json:"groupNames,omitempty"`
}

// AccessRoleRef names a role.
type AccessRoleRef struct {
	// apiGroup is rbac.authorization.k8s.io if the role is a ClusterRole of RBAC, and left out otherwise.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is ClusterRole if the role is a ClusterRole of RBAC, and left out otherwise.
	// +optional
	Kind string `json:"kind,omitempty"`

	// namespace is the namespace of a role of Policy: the master namespace, which is the default.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the role.
	Name string `json:"name"`
}

// ClusterRole reports whether the role is a ClusterRole of RBAC.
func (r AccessRoleRef) ClusterRole() bool { return r.APIGroup != "" || r.Kind != "" }

// ReasonRule says what the reason of a request has to be.
type ReasonRule struct {
	// required refuses requests without a reason.
	// +optional
	Required bool `json:"required,omitempty"`

	// pattern is a regular expression that the reason has to match, such as ^INC-[0-9]+.
	// +optional
	Pattern string `json:"pattern,omitempty"`
}

// ApprovalRule says who has to approve a request.
type ApprovalRule struct {
	// count is how many different people have to approve.
	Count int32 `json:"count"`

	// subjects are those whose approval counts. A service account counts if it is listed by its name.
	Subjects Subjects `json:"subjects"`

	// identityExtra is a key of the users' extra that tells people apart: two users with a common value are one person.
	// +optional
	IdentityExtra string `json:"identityExtra,omitempty"`
}

// WhenSinkDown says what happens to a request by break-glass while a sink is down.
type WhenSinkDown string

// What happens to a request by break-glass while a sink is down.
const (
	SinkDownDeny  WhenSinkDown = "Deny"
	SinkDownSpool WhenSinkDown = "Spool"
)

// AccessLimits are limits for each requester.
type AccessLimits struct {
	// active is how many requests by the rule one user may have that are pending or have not ended.
	// +optional
	Active *int32 `json:"active,omitempty"`

	// perDay is how many requests by the rule one user may make within 24 hours.
	// +optional
	PerDay *int32 `json:"perDay,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AccessRuleList is a list of access rules.
type AccessRuleList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the access rules.
	Items []AccessRule `json:"items"`
}
