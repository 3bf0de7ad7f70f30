package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyName is the only name that a Policy can have.
const PolicyName = "default"

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Policy is the container of the roles of one namespace. There is exactly one per namespace, named "default". It is
// created empty and can be deleted when it is empty; its roles are changed through roles.authorization.proviso.dev
// only.
type Policy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is always "default".
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// lastModified is the time of the last change of a role in this container. It is set by the server.
	// +optional
	LastModified metav1.Time `json:"lastModified,omitempty"`

	// roles are the roles of this namespace by name. They are read here and written through
	// roles.authorization.proviso.dev.
	// +optional
	Roles map[string]PolicyRole `json:"roles,omitempty"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`

	// status says what the roles cover at the moment. It is set by the server.
	// +optional
	Status PolicyStatus `json:"status,omitempty"`
}

// PolicyRole is one role in its container.
type PolicyRole struct {
	// metadata is the role's own metadata, with its own uid, resourceVersion and managed fields.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// rules are the rules of the role. Their order has no meaning.
	// +optional
	// +listType=atomic
	Rules []PolicyRule `json:"rules,omitempty"`
}

// PolicyStatus says what the roles of a policy cover at the moment.
type PolicyStatus struct {
	// observedGeneration is the generation of the policy that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: "KindsResolved" is False while some role names a kind that no served resource has; "RulesCompiled" is
	// False while some rule cannot be compiled and therefore grants nothing.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// unresolvedKinds are the kinds that some role names and that no served resource has, in order.
	// +optional
	// +listType=atomic
	UnresolvedKinds []string `json:"unresolvedKinds,omitempty"`

	// roles is the status of each role by name.
	// +optional
	Roles map[string]RoleStatus `json:"roles,omitempty"`
}

// Types of the conditions of the kinds of this group.
const (
	// ConditionKindsResolved is False while a kind or resource is named that nothing serves.
	ConditionKindsResolved = "KindsResolved"
	// ConditionRulesCompiled is False while a rule or expression cannot be compiled; it then grants nothing.
	ConditionRulesCompiled = "RulesCompiled"
	// ConditionRolesResolved is False while a role is referred to that does not exist.
	ConditionRolesResolved = "RolesResolved"
	// ConditionDeclarationsMissing is True on a CustomResourceDefinition that has lost declarations of field
	// permissions while these were switched off. They still guard.
	ConditionDeclarationsMissing = "DeclarationsMissing"
)

// RoleStatus says what one role covers at the moment.
type RoleStatus struct {
	// rules is the coverage of the rules that name a wildcard, a negation or a kind that is not served, in order.
	// +optional
	// +listType=atomic
	Rules []RuleCoverage `json:"rules,omitempty"`
}

// RuleCoverage says which served resources one rule covers at the moment.
type RuleCoverage struct {
	// rule is the position of the rule in the role, counted from 0.
	Rule int32 `json:"rule"`

	// coveredKinds are the served resources that the rule covers now, as resource.group, in order. It may be cut off;
	// then coveredCount is larger than its length.
	// +optional
	// +listType=atomic
	CoveredKinds []string `json:"coveredKinds,omitempty"`

	// coveredCount is the number of served resources that the rule covers now.
	// +optional
	CoveredCount int32 `json:"coveredCount,omitempty"`

	// unresolvedKinds are the kinds that the rule names and that no served resource has. They match once they are
	// served.
	// +optional
	// +listType=atomic
	UnresolvedKinds []string `json:"unresolvedKinds,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PolicyList is a list of policies.
type PolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the policies.
	Items []Policy `json:"items"`
}
