package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=get,list
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Permission is a field permission as it is in effect at the moment: the verb to grant, and the fields that it guards.
// Who holds the verb "granular" on a resource together with "granular:<permission>" may change these fields of it
// without the right to change the rest of the object. Permissions are shipped, or declared by FieldPermission objects
// (policy.proviso.dev) and in the schemas of custom resource definitions; here they can only be read. The field
// selector resource=deployments.apps lists the permissions on the fields of one resource.
type Permission struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is that of the permission, with a colon in place of the slash
	// after its domain: example.com:selfDestruct.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// permission is the name of the permission, such as labels or example.com/selfDestruct.
	Permission string `json:"permission"`

	// verbs are what a role has to grant on the resource, such as granular:labels. A text in angle brackets stands for
	// the parameter: granular:label(<prefix>) is granted as granular:label(example.com). There is more than one if
	// different declarations of the permission have different parameters.
	// +listType=atomic
	Verbs []string `json:"verbs"`

	// fields are what the permission guards.
	// +listType=atomic
	Fields []PermissionField `json:"fields"`
}

// PermissionField is a field that a permission guards.
type PermissionField struct {
	// resource is the resource that has the field, as resource.group, or "*" for every resource that has it.
	Resource string `json:"resource"`

	// field is the path of the field from the top of the object. Brackets hold a key; empty brackets mean every key or
	// element.
	Field string `json:"field"`

	// verb is the one of the verbs that covers the field.
	Verb string `json:"verb"`

	// source is what declares it: shipped, a FieldPermission, or a CustomResourceDefinition.
	Source string `json:"source"`

	// exclusive is true if the general right to write the object does not cover the field: only the permission does.
	// +optional
	Exclusive bool `json:"exclusive,omitempty"`

	// exclusiveWhen is a CEL expression over self and oldSelf that narrows exclusive to some values.
	// +optional
	ExclusiveWhen string `json:"exclusiveWhen,omitempty"`

	// broken is true if the declaration does not compile. It then covers nothing, so that nobody can use the permission
	// here, and what it excludes stays excluded.
	// +optional
	Broken bool `json:"broken,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PermissionList is a list of permissions.
type PermissionList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the permissions, by name.
	Items []Permission `json:"items"`
}
