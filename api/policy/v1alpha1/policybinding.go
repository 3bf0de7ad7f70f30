package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PolicyBinding is the container of the role bindings of one namespace that refer to roles of one policy. Its name is
// the namespace of that policy: the own namespace, or the master namespace. It is created empty and can be deleted when
// it is empty; its role bindings are changed through rolebindings.authorization.proviso.dev only.
type PolicyBinding struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is the namespace of the policy that is referred to.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// lastModified is the time of the last change of a role binding in this container. It is set by the server.
	// +optional
	LastModified metav1.Time `json:"lastModified,omitempty"`

	// policyRef names the policy whose roles the role bindings refer to. Left out, it follows from the name.
	// +optional
	PolicyRef PolicyReference `json:"policyRef,omitempty"`

	// roleBindings are the role bindings by name. They are read here and written through
	// rolebindings.authorization.proviso.dev.
	// +optional
	RoleBindings map[string]PolicyRoleBinding `json:"roleBindings,omitempty"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`

	// status says which role bindings take effect. It is set by the server.
	// +optional
	Status PolicyBindingStatus `json:"status,omitempty"`
}

// PolicyReference names a policy.
type PolicyReference struct {
	// namespace is the namespace of the policy, whose name is always "default".
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// PolicyRoleBinding is one role binding in its container.
type PolicyRoleBinding struct {
	// metadata is the role binding's own metadata, with its own uid, resourceVersion and managed fields.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// roleName is the role that is bound. It is a role of the policy that the container refers to, unless roleRef says
	// otherwise.
	RoleName string `json:"roleName"`

	// roleRef is set if the role is a ClusterRole of RBAC.
	// +optional
	RoleRef *PolicyRoleReference `json:"roleRef,omitempty"`

	// userNames are the users that have the role.
	// +optional
	// +listType=set
	UserNames []string `json:"userNames,omitempty"`

	// groupNames are the groups whose members have the role.
	// +optional
	// +listType=set
	GroupNames []string `json:"groupNames,omitempty"`

	// notBefore is when the role binding begins to count; left out, it has always counted.
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`

	// notAfter is when the role binding ceases to count; left out, it never does.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`

	// spellings are the fields of the original design in which the role binding was written, roleName and
	// referencesGlobalRole, so that it can be shown as it was written. They mean nothing more than what is said
	// otherwise.
	// +optional
	// +listType=set
	Spellings []string `json:"spellings,omitempty"`
}

// PolicyRoleReference names a role that is not one of Policy.
type PolicyRoleReference struct {
	// apiGroup is rbac.authorization.k8s.io.
	APIGroup string `json:"apiGroup"`

	// kind is ClusterRole.
	Kind string `json:"kind"`

	// name is the name of the role.
	Name string `json:"name"`
}

// Spellings of the original design.
const (
	SpellingRoleName   = "roleName"
	SpellingGlobalRole = "referencesGlobalRole"
)

// PolicyBindingStatus says which role bindings take effect.
type PolicyBindingStatus struct {
	// observedGeneration is the generation of the container that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: "RolesResolved" is False while some role binding refers to a role that does not exist; that binding
	// then grants nothing.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// unresolved are the names of the role bindings whose role does not exist, in order.
	// +optional
	// +listType=atomic
	Unresolved []string `json:"unresolved,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PolicyBindingList is a list of policy bindings.
type PolicyBindingList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the policy bindings.
	Items []PolicyBinding `json:"items"`
}
