package v1

// AuthorizationDecision says what was decided and who decided it, in the shape of KEP-6001. Audit events have it too,
// as the text of an annotation.
type AuthorizationDecision struct {
	// decision is allow or deny.
	Decision string `json:"decision"`

	// authorizer is the type of the authorizer that decided: RBAC, Policy, Node, Webhook, ABAC, AlwaysAllow or
	// AlwaysDeny, or the name of a part of the server that stands in front of them. It is empty if nobody had an
	// opinion, so that the request is refused.
	// +optional
	Authorizer string `json:"authorizer,omitempty"`

	// rbac is what made RBAC decide.
	// +optional
	RBAC *RuleDecision `json:"rbac,omitempty"`

	// policy is what made Policy decide. It is left out where one of several conditional rules did.
	// +optional
	Policy *RuleDecision `json:"policy,omitempty"`

	// webhook is the webhook that decided.
	// +optional
	Webhook *WebhookDecision `json:"webhook,omitempty"`
}

// RuleDecision names the role and the binding that made an authorizer decide.
type RuleDecision struct {
	// role has the rule.
	Role RoleReference `json:"role"`

	// binding gives the role.
	Binding BindingReference `json:"binding"`
}

// RoleReference names a role.
type RoleReference struct {
	// kind is Role or ClusterRole.
	Kind string `json:"kind"`

	// name is the name of the role.
	Name string `json:"name"`

	// namespace is the namespace of a Role.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// BindingReference names a binding, and the subject that matched.
type BindingReference struct {
	// kind is RoleBinding or ClusterRoleBinding.
	Kind string `json:"kind"`

	// name is the name of the binding.
	Name string `json:"name"`

	// namespace is the namespace of a RoleBinding.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// matchedSubject is the entry of the binding that is about the user.
	MatchedSubject SubjectReference `json:"matchedSubject"`
}

// SubjectReference names a subject of a binding.
type SubjectReference struct {
	// kind is User, Group or ServiceAccount.
	Kind string `json:"kind"`

	// name is the name of the subject.
	Name string `json:"name"`

	// namespace is the namespace of a ServiceAccount.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// WebhookDecision names a webhook.
type WebhookDecision struct {
	// name is the name of the authorizer in the authorization configuration.
	Name string `json:"name"`
}
