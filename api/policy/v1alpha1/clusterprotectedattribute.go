package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterProtectedAttribute controls who can set, change or remove a label or annotation on the resources of all
// namespaces and on cluster-scoped resources: only members of the cluster role it names.
type ClusterProtectedAttribute struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// attributeKind is Label or Annotation. It cannot be changed.
	AttributeKind AttributeKind `json:"attributeKind"`

	// attributeName is the key of the label or annotation, or <domain>/* for every key of a domain. It cannot be
	// changed.
	AttributeName string `json:"attributeName"`

	// roleRef is the ClusterRole, or the role of Policy of the master namespace, whose members can set the protected
	// values. A role that does not exist protects all the same: nobody is a member yet.
	RoleRef RoleReference `json:"roleRef"`

	// protectedValues are the values that are protected. Left out, every value is.
	// +optional
	// +listType=set
	ProtectedValues []string `json:"protectedValues,omitempty"`

	// unlistedValues is Free (the default) or Forbidden: whether everybody can set values that protectedValues does not
	// list. If they are forbidden, only the members of an object of the same attribute without a list can set them;
	// members of any object of the attribute can remove them.
	// +optional
	UnlistedValues UnlistedValues `json:"unlistedValues,omitempty"`

	// resources limits the protection to these resources: plurals (namespaces, deployments.apps) or kinds (Namespace).
	// A name without an API group means every group. A pod template counts as pods. Left out, all resources are meant.
	// +optional
	// +listType=set
	Resources []string `json:"resources,omitempty"`

	// scope is ObjectOnly, or IncludeTemplates (the default) to protect also the metadata that an object carries for
	// others: pod templates, job templates, volume claim templates and resource claim templates.
	// +optional
	// +default="IncludeTemplates"
	Scope ProtectionScope `json:"scope,omitempty"`

	// enforcement is Enforce (the default), Warn or Shadow. An attribute that is not enforced is not protected: what
	// would have been refused is recorded (shadowrules.authorization.proviso.dev), and with Warn the caller is told,
	// too.
	// +optional
	Enforcement Enforcement `json:"enforcement,omitempty"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`

	// status says whether the role exists. It is set by the server.
	// +optional
	Status ProtectedAttributeStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterProtectedAttributeList is a list of cluster protected attributes.
type ClusterProtectedAttributeList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the cluster protected attributes.
	Items []ClusterProtectedAttribute `json:"items"`
}
