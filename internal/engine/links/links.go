package links

// In the order of the chain.
const (
	// Token refuses what the narrowed token of the caller does not allow.
	Token = "token"
	// SystemMasters allows everything to the group system:masters.
	SystemMasters = "system-masters"
	// Replicas refuses everybody else while this server differs from its replicas.
	Replicas = "replicas"
	// PolicySync refuses everybody else before the policy is known.
	PolicySync = "policy-sync"
	// NodeRestriction denies nodes what is not theirs.
	NodeRestriction = "node-restriction"
	// PolicyMaster is the policy of the master namespace.
	PolicyMaster = "policy-master"
	// PolicyNamespace is the policy of the namespace of the request.
	PolicyNamespace = "policy-namespace"
	// Node is Kubernetes' authorizer of nodes, unless its configuration names it otherwise.
	Node = "node"
	// RBAC is the link of roles and bindings of RBAC, unless its configuration names it otherwise.
	RBAC = "rbac"
	// Access is the last link: what was granted to people who asked for it.
	Access = "access"
)

// ProtectedAttributes stands behind the chain, in reviews: attributes that the caller may not set.
const ProtectedAttributes = "protected-attributes"

// Effects stands behind the chain, in reviews: what the caller may not bring about by a controller.
const Effects = "effects"

// WithoutRules reports whether a link grants nothing, or whether its grants are known without looking at rules.
func WithoutRules(name string) bool {
	switch name {
	case Token, SystemMasters, Replicas, PolicySync, NodeRestriction, Node, Access:
		return true
	}
	return false
}

// Guards reports whether a link stands in front of the chain and only ever refuses.
func Guards(name string) bool { return name == Token || name == Replicas || name == PolicySync }
