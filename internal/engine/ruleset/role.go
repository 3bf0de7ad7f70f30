package ruleset

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Definition is a role as it takes effect. It must not be changed.
type Definition struct {
	Ref RoleRef
	// What the role was compiled from; one of the two.
	Policy []policyv1alpha1.PolicyRule
	RBAC   []rbacv1.PolicyRule
	// Rules are those that take effect, by position; nil for one that is quarantined.
	Rules []*matching.Rule
}

// Denies reports whether the role has deny rules that take effect.
func (d *Definition) Denies() bool {
	return slices.ContainsFunc(d.Rules, func(r *matching.Rule) bool { return r != nil && r.Deny })
}

// role is one compiled role. Bindings refer to it by its number, so that a change of a role touches the role alone.
type role struct {
	allow, deny matching.Table
	Definition
	problems []Problem
	names    []string // of kinds that the rules mention, in lower case
	over     error    // see roleSource
	asksTime bool     // some condition may look at request.time
}
