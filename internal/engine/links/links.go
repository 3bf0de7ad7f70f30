package links

// In the order of the chain.
const (
	// Token refuses what the narrowed token of the caller does not allow.
	Token = "token"
	// SystemMasters allows everything to the group system:masters.
	SystemMasters = "system-masters"
	// Replicas refuses all others while this server differs from its replicas.
	Replicas = "replicas"
	// PolicySync refuses all others before the policy is known.
	PolicySync = "policy-sync"
	// NodeRestriction denies nodes access to what is not theirs.
	NodeRestriction = "node-restriction"
	// PolicyMaster is the policy of the master namespace.
	PolicyMaster = "policy-master"
	// PolicyNamespace is the policy of the namespace of the request.
	PolicyNamespace = "policy-namespace"
	// Node is Kubernetes' authorizer of nodes, unless its configuration names it otherwise.
	Node = "node"
	// RBAC is the link of roles and bindings of RBAC, unless its configuration names it otherwise.
	RBAC = "rbac"
	// Access is the last link: it allows what access requests have granted.
	Access = "access"
)

// ProtectedAttributes appears after the chain, in reviews: attributes that the caller may not set.
const ProtectedAttributes = "protected-attributes"

// Effects appears after the chain, in reviews: what the caller may not cause through a controller.
const Effects = "effects"

// WithoutRules reports whether a link grants nothing, or whether its grants are known without looking at rules.
func WithoutRules(name string) bool {
	switch name {
	case Token, SystemMasters, Replicas, PolicySync, NodeRestriction, Node, Access:
		return true
	}
	return false
}

// Guards reports whether a link runs ahead of the chain and only ever refuses.
func Guards(name string) bool { return name == Token || name == Replicas || name == PolicySync }
