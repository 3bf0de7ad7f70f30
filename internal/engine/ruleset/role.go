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
	// The source of the role; one of the two is set.
	Policy []policyv1alpha1.PolicyRule
	RBAC   []rbacv1.PolicyRule
	// Rules are the rules that take effect, by position; nil for a quarantined one.
	Rules []*matching.Rule
}

// Denies reports whether the role has deny rules that take effect.
func (d *Definition) Denies() bool {
	return slices.ContainsFunc(d.Rules, func(r *matching.Rule) bool { return r != nil && r.Deny })
}

// role is one compiled role. Bindings refer to it by number, so a change of a role touches only the role.
type role struct {
	allow, deny matching.Table
	Definition
	problems []Problem
	names    []string // of kinds that the rules mention, in lower case
	over     error    // see roleSource
	asksTime bool     // some condition may look at request.time
}
