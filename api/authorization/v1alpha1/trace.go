package v1alpha1

// DecisionTrace is how a decision came about: what every authorizer of the chain answered, by which rules, and what
// would change it. It shows what concerns the subject and nothing else: no rule that does not apply to it, nobody who
// has the same role, and no stored object.
type DecisionTrace struct {
	// decision is the outcome: Allow, Deny, NoOpinion (nobody allows it, which refuses it), or Conditional (it depends
	// on the object).
	Decision TracedAnswer `json:"decision"`

	// decidedBy is the authorizer that decided. It is empty if nobody did, or if it depends on the object.
	// +optional
	DecidedBy string `json:"decidedBy,omitempty"`

	// narrowedTo is the selector that the server adds to a list or watch that is allowed under conditions, or why it
	// refuses the list. It is empty for other verbs.
	// +optional
	NarrowedTo string `json:"narrowedTo,omitempty"`

	// authorizers are all authorizers of the server, in the order in which they are asked.
	// +optional
	// +listType=atomic
	Authorizers []AuthorizerTrace `json:"authorizers,omitempty"`

	// remedy is what would make the request allowed. It is set if it is not.
	// +optional
	Remedy *Remedy `json:"remedy,omitempty"`
}

// TracedAnswer is what an authorizer answered.
// +enum
type TracedAnswer string

const (
	// AnswerAllow allows the request.
	AnswerAllow TracedAnswer = "Allow"
	// AnswerDeny denies the request.
	AnswerDeny TracedAnswer = "Deny"
	// AnswerNoOpinion leaves the request to the next authorizer; if all do, it is refused.
	AnswerNoOpinion TracedAnswer = "NoOpinion"
	// AnswerConditional depends on the object, which is not known.
	AnswerConditional TracedAnswer = "Conditional"
	// AnswerNotAsked means that an authorizer before it had decided.
	AnswerNotAsked TracedAnswer = "NotAsked"
)

// AuthorizerTrace is what one authorizer answered.
type AuthorizerTrace struct {
	// name is the name of the authorizer.
	Name string `json:"name"`

	// answer is what it answered: Allow, Deny, NoOpinion, Conditional or NotAsked.
	Answer TracedAnswer `json:"answer"`

	// reason is its reason, in its own words.
	// +optional
	Reason string `json:"reason,omitempty"`

	// error is what went wrong in it.
	// +optional
	Error string `json:"error,omitempty"`

	// rules are the rules of Policy or RBAC that apply to the request, those that deny first. Other authorizers have
	// none.
	// +optional
	// +listType=atomic
	Rules []RuleTrace `json:"rules,omitempty"`

	// moreRules is how many further rules apply that are not listed.
	// +optional
	MoreRules int32 `json:"moreRules,omitempty"`

	// conditions are the conditions of an authorizer that has no rules, such as a webhook.
	// +optional
	// +listType=atomic
	Conditions []ConditionTrace `json:"conditions,omitempty"`
}

// RuleTrace is a rule that applies to the request, and how the subject comes by it.
type RuleTrace struct {
	// effect is Allow or Deny.
	Effect ConditionEffect `json:"effect"`

	// role is the role that has the rule.
	Role TracedObject `json:"role"`

	// ruleIndex is the position of the rule in the role; the first is 0.
	RuleIndex int32 `json:"ruleIndex"`

	// rule is the rule in one line.
	Rule string `json:"rule"`

	// binding is the binding that gives the role.
	Binding TracedObject `json:"binding"`

	// subject is the user, group or service account of the binding that the request matches.
	Subject TracedSubject `json:"subject"`

	// condition is the rule's condition. Its text is what is left of it after the request has been put in; it is empty
	// if the request alone decides it.
	// +optional
	Condition *ConditionTrace `json:"condition,omitempty"`

	// decides is true for the rule that decided.
	// +optional
	Decides bool `json:"decides,omitempty"`

	// yields is true for a deny rule of the namespace that has no effect, because a grant for the whole cluster
	// allows the request.
	// +optional
	Yields bool `json:"yields,omitempty"`
}

// TracedObject names a role or a binding.
type TracedObject struct {
	// apiGroup is authorization.proviso.dev or rbac.authorization.k8s.io.
	APIGroup string `json:"apiGroup"`

	// kind is Role, ClusterRole, RoleBinding or ClusterRoleBinding.
	Kind string `json:"kind"`

	// namespace is the namespace; empty if it has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name.
	Name string `json:"name"`
}

// TracedSubject names a subject of a binding.
type TracedSubject struct {
	// kind is User, Group or ServiceAccount.
	Kind string `json:"kind"`

	// namespace is the namespace of a service account.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name.
	Name string `json:"name"`
}

// ConditionValue is what a condition evaluates to.
// +enum
type ConditionValue string

const (
	// ConditionTrue is met.
	ConditionTrue ConditionValue = "True"
	// ConditionFalse is not met.
	ConditionFalse ConditionValue = "False"
	// ConditionUnknown depends on the object.
	ConditionUnknown ConditionValue = "Unknown"
	// ConditionError could not be evaluated: an Allow is then not met, and a Deny is.
	ConditionError ConditionValue = "Error"
)

// ConditionTrace is a condition and its value.
type ConditionTrace struct {
	Condition `json:",inline"`

	// value is True, False, Unknown (it depends on the object) or Error.
	Value ConditionValue `json:"value"`

	// error is what went wrong.
	// +optional
	Error string `json:"error,omitempty"`

	// parts are the parts of the condition with their values, each before its own parts. It is filled if there is an
	// object, for a condition whose text is shown.
	// +optional
	// +listType=atomic
	Parts []ConditionPart `json:"parts,omitempty"`
}

// ConditionPart is a part of a condition with its value.
type ConditionPart struct {
	// depth is how deep the part is nested: 0 is the whole condition, or one of those that are joined in it.
	// +optional
	Depth int32 `json:"depth,omitempty"`

	// expression is the part, in the language of the condition.
	Expression string `json:"expression"`

	// value is what it evaluates to, in the same language, or in words if that would be too long.
	// +optional
	Value string `json:"value,omitempty"`

	// error is why it has no value.
	// +optional
	Error string `json:"error,omitempty"`
}

// Remedy is what would make a request allowed: change, if it is set, made to the object; or everything that is in
// remove gone and grant, if it is set, applied.
type Remedy struct {
	// change is the smallest change of the object that was asked about with which the same subject may do it, with the
	// policy as it is. It is empty if no such change was found, and without an object.
	// +optional
	// +listType=atomic
	Change []FieldChange `json:"change,omitempty"`

	// remove are the deny rules that stand in the way: take the subject out of the binding, delete the binding, or take
	// the rule out of the role.
	// +optional
	// +listType=atomic
	Remove []RuleTrace `json:"remove,omitempty"`

	// grant is the smallest grant that is missing, as YAML: one rule with the one verb, resource and name that was
	// asked about, bound to the one subject, in the one namespace.
	// +optional
	Grant string `json:"grant,omitempty"`

	// note says what else there is to know, such as that no grant helps.
	// +optional
	Note string `json:"note,omitempty"`
}

// FieldChange is a change of one field of an object.
type FieldChange struct {
	// path is the field, such as metadata.labels.size or spec.containers[0].image.
	Path string `json:"path"`

	// value is what the field has to be, as JSON. It is empty if the field has to go.
	// +optional
	Value string `json:"value,omitempty"`
}
