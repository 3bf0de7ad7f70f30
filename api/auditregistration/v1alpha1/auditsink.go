package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Level is the amount of detail of an audit event.
// +enum
type Level string

const (
	// LevelNone records nothing.
	LevelNone Level = "None"
	// LevelMetadata records who did what when, without bodies.
	LevelMetadata Level = "Metadata"
	// LevelRequest also records the body of the request.
	LevelRequest Level = "Request"
	// LevelRequestResponse also records the body of the response.
	LevelRequestResponse Level = "RequestResponse"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuditSink is a receiver of audit events. Its policy says which requests are recorded, at which level; its webhook is
// where the events go. A sink without a webhook, or one that refers to an audit class that does not exist, is inactive.
type AuditSink struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the sink.
	// +optional
	Spec AuditSinkSpec `json:"spec,omitempty"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`

	// status says whether the sink is active and what it has delivered. It is set by the server.
	// +optional
	Status AuditSinkStatus `json:"status,omitempty"`
}

// AuditSinkSpec defines a sink.
type AuditSinkSpec struct {
	// policy says which requests are recorded and at which level.
	// +optional
	Policy Policy `json:"policy,omitempty"`

	// webhook is where the events are sent. A sink without one is inactive.
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`
}

// Policy says which requests are recorded and at which level.
type Policy struct {
	// level is the level of all requests that no rule matches: None (the default), Metadata, Request or
	// RequestResponse.
	// +optional
	// +default="None"
	Level Level `json:"level,omitempty"`

	// rules give the requests of a class another level. The first rule that matches a request gives its level.
	// +optional
	// +listType=atomic
	Rules []PolicyRule `json:"rules,omitempty"`
}

// PolicyRule gives the requests of an audit class a level.
type PolicyRule struct {
	// level is the level of the requests that the class selects: None, Metadata, Request or RequestResponse.
	Level Level `json:"level"`

	// withAuditClass is the name of the audit class. The sink stays inactive until the class exists.
	WithAuditClass string `json:"withAuditClass"`
}

// Webhook is where the events of a sink are sent.
type Webhook struct {
	// throttle limits how fast batches of events are sent.
	// +optional
	Throttle *WebhookThrottleConfig `json:"throttle,omitempty"`

	// clientConfig says how the receiver is reached.
	ClientConfig WebhookClientConfig `json:"clientConfig"`
}

// WebhookThrottleConfig limits how fast batches of events are sent.
type WebhookThrottleConfig struct {
	// qps is the number of batches per second, 10 by default.
	// +optional
	// +default=10
	QPS *int64 `json:"qps,omitempty"`

	// burst is the number of batches that can be sent at the same moment, 15 by default.
	// +optional
	// +default=15
	Burst *int64 `json:"burst,omitempty"`
}

// Defaults of the throttle.
const (
	// DefaultQPS is the default of qps.
	DefaultQPS int64 = 10
	// DefaultBurst is the default of burst.
	DefaultBurst int64 = 15
	// DefaultServicePort is the default port of a service.
	DefaultServicePort int32 = 443
)

// WebhookClientConfig says how the receiver is reached. Exactly one of url and service is set.
type WebhookClientConfig struct {
	// url is the address of the receiver, https://host:port/path. User names and fragments are not allowed in it.
	// +optional
	URL *string `json:"url,omitempty"`

	// service is the receiver as a service of the cluster.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`

	// caBundle holds the PEM certificates of the authorities that may have signed the receiver's certificate. Left out,
	// those of the system are used.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// ServiceReference names a service of the cluster.
type ServiceReference struct {
	// namespace is the namespace of the service.
	Namespace string `json:"namespace"`

	// name is the name of the service.
	Name string `json:"name"`

	// path is the path of the URL, "/" by default.
	// +optional
	Path *string `json:"path,omitempty"`

	// port is the port of the service, 443 by default.
	// +optional
	// +default=443
	Port *int32 `json:"port,omitempty"`
}

// ConditionActive is True while a sink gets events. Otherwise its reason is one of the Reason constants.
const ConditionActive = "Active"

// Reasons of the condition Active.
const (
	// ReasonActive: the sink gets events.
	ReasonActive = "Active"
	// ReasonClassesMissing: an audit class that the policy refers to does not exist; the message names it.
	ReasonClassesMissing = "AuditClassesMissing"
	// ReasonNoWebhook: the sink has no webhook.
	ReasonNoWebhook = "NoWebhook"
	// ReasonInvalid: the policy or the webhook cannot be used; the message says why.
	ReasonInvalid = "Invalid"
)

// ConditionDelivering is True while what an active sink gets is delivered, False while deliveries fail, and Unknown
// while the sink is inactive.
const ConditionDelivering = "Delivering"

// Reasons of the condition Delivering, and of the Events when it changes.
const (
	// ReasonDelivering: no delivery is failing.
	ReasonDelivering = "Delivering"
	// ReasonDeliveryFailed: deliveries fail; the message says why. Events wait and are sent again.
	ReasonDeliveryFailed = "DeliveryFailed"
	// ReasonInactive: the sink gets no events; the condition Active says why.
	ReasonInactive = "Inactive"
)

// AuditSinkStatus says whether a sink is active and what it has delivered. The counters are the sums over the replicas
// of the server.
type AuditSinkStatus struct {
	// observedGeneration is the generation of the sink that this status was computed from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: "Active" is True while the sink gets events; otherwise its reason and message say why not.
	// "Delivering" is False while deliveries fail on any replica of the server, with the last error as its message.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// missingClasses are the audit classes that the policy refers to and that do not exist, in order.
	// +optional
	// +listType=atomic
	MissingClasses []string `json:"missingClasses,omitempty"`

	// compiledRules is the number of rules of the compiled policy.
	// +optional
	CompiledRules int32 `json:"compiledRules,omitempty"`

	// delivered is the number of events that the receiver has acknowledged.
	// +optional
	Delivered int64 `json:"delivered,omitempty"`

	// spooled is the number of events that wait for delivery.
	// +optional
	Spooled int64 `json:"spooled,omitempty"`

	// dropped is the number of events that the receiver will not get: because the spool was full or damaged, because
	// they could not be written, or because they were set aside.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`

	// setAside is the number of events that the receiver refuses, even alone and without their bodies. The newest of
	// them are kept beside the spool.
	// +optional
	SetAside int64 `json:"setAside,omitempty"`

	// lagSeconds is the age of the oldest event that waits for delivery.
	// +optional
	LagSeconds int64 `json:"lagSeconds,omitempty"`

	// lastError is the last error of a delivery. It is empty when the last delivery succeeded.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// lastErrorTime is when lastError happened.
	// +optional
	LastErrorTime *metav1.Time `json:"lastErrorTime,omitempty"`

	// replicas are the same figures for each replica of the server.
	// +optional
	// +listType=map
	// +listMapKey=name
	Replicas []AuditSinkReplicaStatus `json:"replicas,omitempty"`
}

// AuditSinkReplicaStatus says what one replica of the server has delivered to a sink.
type AuditSinkReplicaStatus struct {
	// name identifies the replica.
	Name string `json:"name"`

	// lastUpdate is when the replica reported these figures.
	// +optional
	LastUpdate metav1.Time `json:"lastUpdate,omitempty"`

	// delivered is the number of events that the receiver has acknowledged.
	// +optional
	Delivered int64 `json:"delivered,omitempty"`

	// spooled is the number of events that wait for delivery.
	// +optional
	Spooled int64 `json:"spooled,omitempty"`

	// dropped is the number of events that the receiver will not get: because the spool was full or damaged, because
	// they could not be written, or because they were set aside.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`

	// setAside is the number of events that the receiver refuses, even alone and without their bodies. The newest of
	// them are kept beside the spool.
	// +optional
	SetAside int64 `json:"setAside,omitempty"`

	// lagSeconds is the age of the oldest event that waits for delivery.
	// +optional
	LagSeconds int64 `json:"lagSeconds,omitempty"`

	// lastError is the last error of a delivery. It is empty when the last delivery succeeded.
	// +optional
	LastError string `json:"lastError,omitempty"`

	// lastErrorTime is when lastError happened.
	// +optional
	LastErrorTime *metav1.Time `json:"lastErrorTime,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AuditSinkList is a list of audit sinks.
type AuditSinkList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the audit sinks.
	Items []AuditSink `json:"items"`
}
