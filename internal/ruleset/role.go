package ruleset

import (
	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/ruleset/matching"
)

// role is one compiled role. Bindings refer to it by its number, so that a change of a role touches the role alone.
type role struct {
	ref         RoleRef
	allow, deny matching.Table
	keys        []keyMask // where the inverse index lists the role
	problems    []Problem
	names       []string // of kinds that the rules mention, in lower case

	// What the role was compiled from; one of the two.
	policy []policyv1alpha1.PolicyRule
	rbac   []rbacv1.PolicyRule
	over   error // see roleSource
	// compiled are the rules that take effect, by position; nil for one that is quarantined.
	compiled []*matching.Rule
}
