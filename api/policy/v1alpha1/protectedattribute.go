package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AttributeKind is the kind of metadata that is protected.
// +enum
type AttributeKind string

const (
	// AttributeLabel is a label.
	AttributeLabel AttributeKind = "Label"
	// AttributeAnnotation is an annotation.
	AttributeAnnotation AttributeKind = "Annotation"
)

// ProtectionScope says how far a protection reaches into an object.
// +enum
type ProtectionScope string

const (
	// ScopeObjectOnly protects the metadata of the object alone.
	ScopeObjectOnly ProtectionScope = "ObjectOnly"
	// ScopeIncludeTemplates also protects the metadata that the object carries for others, such as pod templates.
	ScopeIncludeTemplates ProtectionScope = "IncludeTemplates"
)

// UnlistedValues says what becomes of values that a protection does not list.
// +enum
type UnlistedValues string

const (
	// UnlistedFree lets everybody set them.
	UnlistedFree UnlistedValues = "Free"
	// UnlistedForbidden protects them, too.
	UnlistedForbidden UnlistedValues = "Forbidden"
)

// RoleReference names a role whose members may set a protected attribute: one of RBAC, or one of Policy.
type RoleReference struct {
	// apiGroup is the group of the role: rbac.authorization.k8s.io, which is also the default, or
	// authorization.proviso.dev for a role of Policy.
	// +optional
	// +default="rbac.authorization.k8s.io"
	APIGroup string `json:"apiGroup,omitempty"`

	// kind is Role or ClusterRole. A role of Policy is a Role. A ClusterProtectedAttribute cannot name a Role of RBAC.
	Kind string `json:"kind"`

	// namespace of the role. A ClusterRole has none. A Role of RBAC is one of the own namespace, a role of Policy one
	// of the own or of the master namespace; the own one is the default. A ClusterProtectedAttribute has to say that a
	// role of Policy is in the master namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the role.
	Name string `json:"name"`
}

// API groups of the roles that a protection can name.
const (
	// RoleAPIGroup is that of RBAC.
	RoleAPIGroup = "rbac.authorization.k8s.io"
	// PolicyRoleAPIGroup is that of Policy.
	PolicyRoleAPIGroup = "authorization.proviso.dev"
)

// ProtectedAttributeStatus says whether the role of a protection exists.
type ProtectedAttributeStatus struct {
	// observedGeneration is the generation of the object that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: "RolesResolved" is False while the role does not exist. The attribute is protected all the same.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ProtectedAttribute controls who can set, change or remove a label or annotation on the resources of its namespace:
// only members of the role it names. Where a ClusterProtectedAttribute covers the same value, membership in a role of
// each is needed.
type ProtectedAttribute struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// attributeKind is Label or Annotation. It cannot be changed.
	AttributeKind AttributeKind `json:"attributeKind"`

	// attributeName is the key of the label or annotation, or <domain>/* for every key of a domain. It cannot be
	// changed.
	AttributeName string `json:"attributeName"`

	// roleRef is the Role of this namespace, the ClusterRole, or the role of Policy, of this or the master namespace,
	// whose members can set the protected values. A role that does not exist protects all the same: nobody is a member
	// yet.
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

// ProtectedAttributeList is a list of protected attributes.
type ProtectedAttributeList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the protected attributes.
	Items []ProtectedAttribute `json:"items"`
}
