package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceAuditSink is a receiver of audit events about its namespace. It gets of each event what its service account
// may read at that moment. It is not active without a webhook, without the account, or while an audit class does not
// exist that it refers to.
type NamespaceAuditSink struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the sink.
	Spec NamespaceAuditSinkSpec `json:"spec"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`

	// status says whether the sink is active and what it has delivered. It is set by the server.
	// +optional
	Status auditv1alpha1.AuditSinkStatus `json:"status,omitempty"`
}

// NamespaceAuditSinkSpec defines a sink.
type NamespaceAuditSinkSpec struct {
	// serviceAccountName is a service account of the namespace. An event has bodies only if the account may get the
	// object at that moment, and shows fields that are hidden only if the account may see them. The author of the spec
	// must be able to act as the account: impersonate it, or create a token of it.
	ServiceAccountName string `json:"serviceAccountName"`

	// serviceAccountUID is the account that there was when the spec was written. The server sets it. If the account is
	// deleted, the sink gets nothing, until the spec is written again.
	// +optional
	ServiceAccountUID string `json:"serviceAccountUID,omitempty"`

	// policy says which requests are recorded and at which level. Only requests about the namespace are.
	// +optional
	Policy auditv1alpha1.Policy `json:"policy,omitempty"`

	// webhook is where the events are sent: a service of the namespace, or a URL that the server allows with
	// --audit-namespace-sinks-allow. A sink without one is inactive.
	// +optional
	Webhook *auditv1alpha1.Webhook `json:"webhook,omitempty"`

	// notAfter is when the sink ends, in whole seconds: from that instant on it gets no events.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`

	// omitManagedFields leaves the managed fields out of the objects in requests and responses.
	// +optional
	OmitManagedFields bool `json:"omitManagedFields,omitempty"`

	// redact are fields whose values the sink does not get.
	// +optional
	Redact *auditv1alpha1.Redaction `json:"redact,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NamespaceAuditSinkList is a list of audit sinks of namespaces.
type NamespaceAuditSinkList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the sinks.
	Items []NamespaceAuditSink `json:"items"`
}
