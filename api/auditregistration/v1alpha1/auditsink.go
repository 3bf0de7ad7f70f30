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

	// notAfter is when the sink ends, in whole seconds: from that instant on it gets no events. What it had until then
	// is still delivered. Left out, it gets events until it is deleted.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`

	// omitManagedFields leaves the managed fields out of the objects in requests and responses.
	// +optional
	OmitManagedFields bool `json:"omitManagedFields,omitempty"`

	// redact are fields whose values the sink does not get.
	// +optional
	Redact *Redaction `json:"redact,omitempty"`

	// reveal are field permissions whose hidden fields the sink gets; those of all others are left out of events.
	// Changing a sink that has some takes the verb reveal:<permission> in the whole cluster, on all resources that have
	// the field.
	// +optional
	// +listType=set
	Reveal []string `json:"reveal,omitempty"`
}

// Redaction names fields whose values a sink does not get: the values are replaced, the keys of maps are kept. Bodies
// in which the fields cannot be found, and those of patches, are left out.
type Redaction struct {
	// permissions are field permissions by name, such as example.com/secretData. While one of them is not declared, the
	// sink gets no bodies.
	// +optional
	// +listType=set
	Permissions []string `json:"permissions,omitempty"`

	// fields are fields by their path.
	// +optional
	// +listType=atomic
	Fields []RedactedField `json:"fields,omitempty"`
}

// RedactedField is a field of some resources.
type RedactedField struct {
	// resources have the field: plurals such as secrets, with their group such as deployments.apps, or "*" for all.
	// Where one of them is the template of another, as pods in deployments.apps, the field is redacted there, too.
	// +listType=atomic
	Resources []string `json:"resources"`

	// field is the path, such as .data or .spec.containers[].env, in the preferred version of the resources.
	Field string `json:"field"`
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
	// ReasonEnded: spec.notAfter is past.
	ReasonEnded = "Ended"
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
