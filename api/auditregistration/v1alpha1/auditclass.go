package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuditClass is a set of rules that select requests. The policies of audit sinks refer to it and give the requests that
// it selects a level.
type AuditClass struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the class.
	Spec AuditClassSpec `json:"spec"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`
}

// AuditClassSpec defines an audit class.
type AuditClassSpec struct {
	// rules select requests. A request belongs to the class if one of them matches. At least one is needed.
	// +listType=atomic
	Rules []Rule `json:"rules"`
}

// Rule selects requests. A request has to match every selector that is given; the entries of a list are alternatives.
// groupResourceSelectors and nonResourceSelectors exclude each other.
type Rule struct {
	// subjects are the users and groups whose requests are selected. The user is the one that was authenticated, not
	// one that is impersonated. Left out, every request matches.
	// +optional
	// +listType=atomic
	Subjects []SubjectSelector `json:"subjects,omitempty"`

	// allSubjects asks for both kinds of subjects: the user is one of the users, and has one of the groups. Otherwise
	// one of them is enough.
	// +optional
	AllSubjects bool `json:"allSubjects,omitempty"`

	// verbs are the verbs of the requests that are selected: API verbs such as create and watch, or HTTP verbs in lower
	// case for non-resource requests. "*", or leaving the list out, means all.
	// +optional
	// +listType=atomic
	Verbs []string `json:"verbs,omitempty"`

	// groupResourceSelectors select requests for resources. With neither these nor nonResourceSelectors, all requests
	// of the subjects and verbs are selected.
	// +optional
	// +listType=atomic
	GroupResourceSelectors []GroupResourceSelector `json:"groupResourceSelectors,omitempty"`

	// nonResourceSelectors select requests for paths outside the resource API. A single object {urls: […]} is accepted
	// in the place of the list.
	// +optional
	// +listType=atomic
	NonResourceSelectors NonResourceSelectors `json:"nonResourceSelectors,omitempty"`

	// decisions select requests by how they were decided in the end: Allow, Deny, or NoOpinion if nobody allowed or
	// denied them. A request whose decision cannot be told, because it failed before its conditions were looked at,
	// matches. Left out, every request matches.
	// +optional
	// +listType=set
	Decisions []Decision `json:"decisions,omitempty"`

	// conditional selects requests whose decision depended on conditions, or, if false, did not. Left out, every
	// request matches.
	// +optional
	Conditional *bool `json:"conditional,omitempty"`
}

// Decision is how a request was decided.
// +enum
type Decision string

const (
	// DecisionAllow: the request was allowed.
	DecisionAllow Decision = "Allow"
	// DecisionDeny: the request was denied.
	DecisionDeny Decision = "Deny"
	// DecisionNoOpinion: nobody allowed or denied the request, so that it was refused.
	DecisionNoOpinion Decision = "NoOpinion"
)

// SubjectType is the kind of a subject.
// +enum
type SubjectType string

const (
	// SubjectUser is a user. "Users" is an accepted spelling.
	SubjectUser SubjectType = "User"
	// SubjectUserGroup is a group of users. "Group" is an accepted spelling.
	SubjectUserGroup SubjectType = "UserGroup"
)

// SubjectSelector selects users or groups by name.
type SubjectSelector struct {
	// type is User or UserGroup. "Users" and "Group" are accepted spellings.
	Type SubjectType `json:"type"`

	// names are the names of the users or groups.
	// +listType=atomic
	Names []string `json:"names"`
}

// ScopeType is where the selected resources live.
// +enum
type ScopeType string

const (
	// ScopeAny selects resources wherever they live.
	ScopeAny ScopeType = "Any"
	// ScopeCluster selects requests without a namespace.
	ScopeCluster ScopeType = "Cluster"
	// ScopeNamespaced selects requests in a namespace.
	ScopeNamespaced ScopeType = "Namespaced"
)

// GroupResourceSelector selects requests for resources of one API group.
type GroupResourceSelector struct {
	// group is the API group: "" is the core group, "*" any group.
	// +optional
	Group string `json:"group"`

	// NoGroup remembers that group was left out, which means the core group too.
	NoGroup bool `json:"-"`

	// resources are the resources of the group. Left out, all of them are selected, subresources included.
	// +optional
	// +listType=atomic
	Resources []ResourceSelector `json:"resources,omitempty"`

	// scope is Any (the default), Cluster (requests without a namespace) or Namespaced (requests in a namespace).
	// +optional
	Scope ScopeType `json:"scope,omitempty"`

	// namespaces limits the scope Namespaced to these namespaces. Left out, all namespaces are selected. A plain name
	// is accepted in the place of {name: …}.
	// +optional
	// +listType=atomic
	Namespaces []NamespaceSelector `json:"namespaces,omitempty"`
}

// ResourceSelector selects one resource.
type ResourceSelector struct {
	// kind is the plural name of the resource, such as secrets, or "*" for every resource of the group.
	Kind string `json:"kind"`

	// subresources are the subresources that are selected; "*" means all of them. Left out, the resource alone is
	// selected. If given, the resource alone is not.
	// +optional
	// +listType=atomic
	Subresources []string `json:"subresources,omitempty"`

	// objectNames limits the selection to objects with these names. Left out, every name is selected.
	// +optional
	// +listType=atomic
	ObjectNames []string `json:"objectNames,omitempty"`
}

// NamespaceSelector selects one namespace.
type NamespaceSelector struct {
	// name is the name of the namespace.
	Name string `json:"name"`
}

// NonResourceSelectors is a list of selectors, which is accepted as a single object as well.
// +listType=atomic
type NonResourceSelectors []NonResourceSelector

// NonResourceSelector selects requests by path.
type NonResourceSelector struct {
	// urls are paths. A trailing "*" matches every path that begins so.
	// +listType=atomic
	URLs []string `json:"urls"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuditClassList is a list of audit classes.
type AuditClassList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the audit classes.
	Items []AuditClass `json:"items"`
}
