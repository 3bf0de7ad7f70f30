package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:skipVerbs=deleteCollection
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RoleBinding gives a role to users and groups, in its own namespace; in the master namespace, everywhere. It is a view
// on the PolicyBinding of its namespace that is named after the namespace of the role.
type RoleBinding struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// roleRef is the role that is given: one of the own namespace, one of the master namespace, or a ClusterRole of
	// RBAC. It cannot be changed; delete the role binding and create it again instead.
	// +optional
	RoleRef RoleRef `json:"roleRef"`

	// referencesGlobalRole is the original design's way to say that the role is one of the master namespace. It is read
	// as roleRef.namespace, and shown again as it was written.
	// +optional
	ReferencesGlobalRole bool `json:"referencesGlobalRole,omitempty"`

	// roleName is the original design's way to say roleRef.name. It is read as that, and shown again as it was written.
	// +optional
	RoleName string `json:"roleName,omitempty"`

	// userNames are the users that have the role.
	// +optional
	// +listType=set
	UserNames []string `json:"userNames,omitempty"`

	// groupNames are the groups whose members have the role.
	// +optional
	// +listType=set
	GroupNames []string `json:"groupNames,omitempty"`

	// notBefore is when the role binding begins to count, in whole seconds. Left out, it counts at once.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`

	// notAfter is when the role binding ceases to count, in whole seconds: at that instant it does not count any more.
	// Left out, it counts until it is deleted.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
}

// RoleRef names a role.
type RoleRef struct {
	// apiGroup is rbac.authorization.k8s.io if the role is a ClusterRole of RBAC, and left out otherwise.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is ClusterRole if the role is a ClusterRole of RBAC, and left out otherwise.
	// +optional
	Kind string `json:"kind,omitempty"`

	// namespace is the namespace of the role: the own namespace, which is the default, or the master namespace. A
	// ClusterRole has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the role.
	Name string `json:"name"`
}

// ClusterRole reports whether the role is a ClusterRole of RBAC.
func (r RoleRef) ClusterRole() bool { return r.APIGroup != "" || r.Kind != "" }

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RoleBindingList is a list of role bindings.
type RoleBindingList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the role bindings.
	Items []RoleBinding `json:"items"`
}
