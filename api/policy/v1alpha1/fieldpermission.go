package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FieldPermission maps a field of one or many resources to a named permission. Who holds the verb "granular" on the
// resource and "granular:<permission>" may change that field without the right to change the rest of the object. With
// exclusive, the field is also taken out of the general right to write the object. With readExclusive, readers who do
// not hold "reveal:<permission>" do not see it.
type FieldPermission struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec declares the permission.
	Spec FieldPermissionSpec `json:"spec"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`

	// status says where the declaration takes effect. It is set by the server.
	// +optional
	Status FieldPermissionStatus `json:"status,omitempty"`
}

// FieldPermissionSpec declares a permission for a field.
type FieldPermissionSpec struct {
	// resources are the resources that have the field: "resource" (core group), "resource.group", or "*" for all.
	// +listType=set
	Resources []string `json:"resources"`

	// field is the path of the field from the top of the object, such as ".spec.nodeName" or
	// ".metadata.labels[pod-security.kubernetes.io/enforce]". Brackets hold a map key; empty brackets mean every key or
	// element.
	Field string `json:"field"`

	// permission is the name of the permission: lowerCamelCase with a domain in front, such as
	// "example.com/selfDestruct". It is about the concept, not the field, and shared by the same concept of different
	// resources. Names without a domain are those that are shipped, such as nodeAssignment.
	Permission string `json:"permission"`

	// parameter makes the permission one with a parameter, so that it can be given for some keys or elements only:
	// "granular:<permission>(<parameter>)".
	// +optional
	Parameter *FieldPermissionParameter `json:"parameter,omitempty"`

	// exclusive takes the field out of the general right to write the object: only the permission itself covers it.
	// +optional
	Exclusive bool `json:"exclusive,omitempty"`

	// exclusiveWhen is a CEL expression over self (the new value) and oldSelf (the stored one) that narrows exclusive
	// to some values, such as `self == true`. It needs exclusive.
	// +optional
	ExclusiveWhen string `json:"exclusiveWhen,omitempty"`

	// readExclusive hides the field: a reader who does not hold "reveal:<permission>" on the resource gets objects
	// without it, in every response.
	// +optional
	ReadExclusive bool `json:"readExclusive,omitempty"`

	// keep says what a reader sees of a hidden field: Nothing (the default), or Keys, which shows the keys of a map
	// with empty values. It needs readExclusive.
	// +optional
	Keep HiddenKeep `json:"keep,omitempty"`

	// templates are fields of custom resources that hold the template of a pod. A permission for a field of pods holds
	// there, too; resources must name pods, or "*". The schema of a custom resource can say the same for all
	// permissions: "x-proviso-embedded-template: Pod".
	// +optional
	// +listType=atomic
	Templates []FieldPermissionTemplate `json:"templates,omitempty"`

	// enforcement is Enforce (the default), Warn or Shadow. A declaration that is not enforced guards nothing and
	// covers nothing: what it would have changed is recorded (shadowrules.authorization.proviso.dev), and with Warn the
	// caller is told, too.
	// +optional
	Enforcement Enforcement `json:"enforcement,omitempty"`
}

// FieldPermissionTemplate is a field with the template of a pod.
type FieldPermissionTemplate struct {
	// resource is the custom resource that has the field: "resource.group".
	Resource string `json:"resource"`

	// field is the path of the template, which has metadata and spec, such as ".spec.template" or
	// ".spec.workers[].template".
	Field string `json:"field"`
}

// HiddenKeep says what is shown of a hidden field.
// +enum
type HiddenKeep string

const (
	// KeepNothing shows nothing of a hidden field.
	KeepNothing HiddenKeep = "Nothing"
	// KeepKeys shows the keys of a hidden map, with empty values.
	KeepKeys HiddenKeep = "Keys"
)

// AnnotationHidden names the fields of an object that its reader does not see. It is never stored.
const AnnotationHidden = "proviso.dev/hidden"

// FieldPermissionParameter says how the parameter of a permission is found.
type FieldPermissionParameter struct {
	// from is where the parameter comes from: "key" (the map key), "value" (the value), "element" (the list element),
	// or a CEL expression over key, value and element.
	From string `json:"from"`

	// treatment says what becomes of it: "" takes it as it is, "slash-delimited-prefix" takes the text before the first
	// "/".
	// +optional
	Treatment ParameterTreatment `json:"treatment,omitempty"`
}

// Sources of a parameter. Anything else is a CEL expression.
const (
	// ParameterFromKey takes the key of the map entry.
	ParameterFromKey = "key"
	// ParameterFromValue takes the value of the field.
	ParameterFromValue = "value"
	// ParameterFromElement takes the element of the list.
	ParameterFromElement = "element"
)

// ParameterTreatment says what becomes of a parameter before it is put into the verb.
// +enum
type ParameterTreatment string

const (
	// TreatmentVerbatim takes the parameter as it is.
	TreatmentVerbatim ParameterTreatment = ""
	// TreatmentSlashDelimitedPrefix takes the text before the first slash.
	TreatmentSlashDelimitedPrefix ParameterTreatment = "slash-delimited-prefix"
)

// FieldPermissionStatus says where a field permission takes effect.
type FieldPermissionStatus struct {
	// observedGeneration is the generation of the object that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: "KindsResolved" is False while a resource is named that is not served or does not have the field;
	// "RulesCompiled" is False while an expression cannot be compiled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// coveredResources are the served resources that have the field, as resource.group, in order.
	// +optional
	// +listType=atomic
	CoveredResources []string `json:"coveredResources,omitempty"`

	// unresolvedResources are the resources that are named and that are not served or do not have the field, in order.
	// +optional
	// +listType=atomic
	UnresolvedResources []string `json:"unresolvedResources,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// FieldPermissionList is a list of field permissions.
type FieldPermissionList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the field permissions.
	Items []FieldPermission `json:"items"`
}
