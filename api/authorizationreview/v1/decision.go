package v1

// DecisionType is the type of a decision in a tree of decisions.
type DecisionType string

const (
	// DecisionAllow allows, whatever the object is.
	DecisionAllow DecisionType = "Allow"
	// DecisionDeny denies, whatever the object is.
	DecisionDeny DecisionType = "Deny"
	// DecisionNoOpinion leaves the request to the next authorizer, whatever the object is.
	DecisionNoOpinion DecisionType = "NoOpinion"
	// DecisionConditionsMap depends on conditions.
	DecisionConditionsMap DecisionType = "ConditionsMap"
	// DecisionUnion is what the authorizers of a chain decided, in their order.
	DecisionUnion DecisionType = "Union"
)

// ConditionsAwareDecision is a decision that may depend on the object. The member that its type names is set, and no
// other.
type ConditionsAwareDecision struct {
	// type is Allow, Deny, NoOpinion, ConditionsMap or Union.
	Type DecisionType `json:"type"`

	// deny says more about a decision of type Deny.
	// +optional
	Deny *UnconditionalDecision `json:"deny,omitempty"`

	// noOpinion says more about a decision of type NoOpinion.
	// +optional
	NoOpinion *UnconditionalDecision `json:"noOpinion,omitempty"`

	// allow says more about a decision of type Allow.
	// +optional
	Allow *UnconditionalDecision `json:"allow,omitempty"`

	// conditionsMap has the conditions of a decision of type ConditionsMap.
	// +optional
	ConditionsMap *ConditionsMap `json:"conditionsMap,omitempty"`

	// union has the decisions that a decision of type Union consists of, in order: the first that turns out to be Allow
	// or Deny decides.
	// +optional
	// +listType=map
	// +listMapKey=authorizerName
	Union []NamedConditionsAwareDecision `json:"union,omitempty"`
}

// NamedConditionsAwareDecision is the decision of one authorizer of a chain.
type NamedConditionsAwareDecision struct {
	// authorizerName is the authorizer that decided.
	AuthorizerName string `json:"authorizerName"`

	// decision is what it decided.
	Decision ConditionsAwareDecision `json:"decision"`
}

// UnconditionalDecision says more about a decision that depends on no condition.
type UnconditionalDecision struct {
	// reason says why.
	// +optional
	Reason string `json:"reason,omitempty"`

	// evaluationError says what went wrong on the way. The decision holds all the same.
	// +optional
	EvaluationError string `json:"evaluationError,omitempty"`
}

// ConditionsMap is a set of conditions, by effect. They are evaluated together: a Deny that is met or fails denies;
// otherwise, a NoOpinion that is met or fails leaves the request to the next authorizer; otherwise, an Allow that is
// met allows; otherwise, the next authorizer decides.
type ConditionsMap struct {
	// denyConditions deny when they are met.
	// +optional
	// +listType=map
	// +listMapKey=id
	DenyConditions []Condition `json:"denyConditions,omitempty"`

	// noOpinionConditions leave the request to the next authorizer when they are met.
	// +optional
	// +listType=map
	// +listMapKey=id
	NoOpinionConditions []Condition `json:"noOpinionConditions,omitempty"`

	// allowConditions allow when they are met.
	// +optional
	// +listType=map
	// +listMapKey=id
	AllowConditions []Condition `json:"allowConditions,omitempty"`
}

// Condition is one condition of a map.
type Condition struct {
	// id identifies the condition in its map: a label key.
	ID string `json:"id"`

	// type is the language of the condition, such as k8s.io/authorization-cel.
	// +optional
	Type string `json:"type,omitempty"`

	// condition is the text of the condition.
	// +optional
	Condition string `json:"condition,omitempty"`

	// description says the condition in words.
	// +optional
	Description string `json:"description,omitempty"`
}
