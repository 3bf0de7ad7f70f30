package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// +genclient
// +genclient:noStatus
// +genclient:skipVerbs=deleteCollection
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Role names a set of rules, so that role bindings can refer to them as a unit. It is a view on the Policy "default" of
// its namespace, which has to exist. A role of the master namespace can be bound in every namespace.
type Role struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// rules are what the role allows and, with deny, takes away. Their order has no meaning: deny wins.
	// +optional
	// +listType=atomic
	Rules []policyv1alpha1.PolicyRule `json:"rules,omitempty"`

	// status says which served resources the rules cover at the moment. It is set by the server and may be a moment
	// behind.
	// +optional
	Status policyv1alpha1.RoleStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RoleList is a list of roles.
type RoleList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the roles.
	Items []Role `json:"items"`
}
