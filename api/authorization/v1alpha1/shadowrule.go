package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// +genclient
// +genclient:onlyVerbs=get,list
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowRule is a rule, protected attribute or field permission that is not enforced, with what it would have changed.
// It can only be read. It is in the namespace of the object that it is about; what has no namespace is in the master
// namespace. The server that answers has counted what it served itself, in memory, since it first saw the rule.
type ShadowRule struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is made of the kind, the name and, in a role, the position of
	// the rule: role.dev-volumes.0.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// about names what is not enforced.
	About ShadowedObject `json:"about"`

	// enforcement is Warn or Shadow.
	Enforcement policyv1alpha1.Enforcement `json:"enforcement"`

	// denies is true if it would take something away, and false if it would give something.
	// +optional
	Denies bool `json:"denies,omitempty"`

	// description says what it is for.
	// +optional
	Description string `json:"description,omitempty"`

	// status is what it would have changed.
	// +optional
	Status ShadowRuleStatus `json:"status,omitempty"`
}

// ShadowedObject names an object that is not enforced, or the rule of it.
type ShadowedObject struct {
	// kind is Role, ProtectedAttribute, ClusterProtectedAttribute or FieldPermission.
	Kind string `json:"kind"`

	// namespace is the namespace of the object; empty if it has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	Name string `json:"name"`

	// rule is the position of the rule in a role, counted from 0.
	// +optional
	Rule *int32 `json:"rule,omitempty"`
}

// ShadowRuleStatus is what something that is not enforced would have changed.
type ShadowRuleStatus struct {
	// since is when this server began to count: when it saw the rule, or started.
	// +optional
	Since metav1.Time `json:"since,omitempty"`

	// applied is the number of requests that the rule applied to, whether it would have changed anything or not.
	// +optional
	Applied int64 `json:"applied,omitempty"`

	// wouldAllow is the number of requests that were refused and would have been allowed.
	// +optional
	WouldAllow int64 `json:"wouldAllow,omitempty"`

	// wouldDeny is the number of requests that were allowed and would have been denied.
	// +optional
	WouldDeny int64 `json:"wouldDeny,omitempty"`

	// undecided is the number of requests of which cannot be told: they were refused before the object was read that
	// the rule depends on.
	// +optional
	Undecided int64 `json:"undecided,omitempty"`

	// flips are the latest requests that would have been answered differently, the newest first.
	// +optional
	// +listType=atomic
	Flips []ShadowFlip `json:"flips,omitempty"`
}

// ShadowFlip is a request that would have been answered differently.
type ShadowFlip struct {
	// time is when it was made.
	Time metav1.MicroTime `json:"time"`

	// user made it.
	// +optional
	User string `json:"user,omitempty"`

	// verb is what was asked for.
	Verb string `json:"verb"`

	// apiGroup is the group of the resource.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// resource is the resource; empty for a path.
	// +optional
	Resource string `json:"resource,omitempty"`

	// subresource is the subresource.
	// +optional
	Subresource string `json:"subresource,omitempty"`

	// namespace is the namespace of the request.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object, as far as the request says one.
	// +optional
	Name string `json:"name,omitempty"`

	// path is the path of a request that is about no resource.
	// +optional
	Path string `json:"path,omitempty"`

	// was is what became of it: Allow or Deny.
	Was string `json:"was"`

	// would is what would have become of it: Allow, Deny or Undecided.
	Would string `json:"would"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ShadowRuleList is a list of rules that are not enforced.
type ShadowRuleList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the rules, by namespace and name.
	Items []ShadowRule `json:"items"`
}
