package ruleset

import "proviso.dev/proviso/internal/engine/ruleset/matching"

// The types of package matching in the interface of the index.
type (
	// Kinds says which resources are served, and what names of kinds mean.
	Kinds = matching.Kinds
	// Served is one served resource.
	Served = matching.Served
	// Condition is what the where, when and attributeRestrictions of a rule were compiled to.
	Condition = matching.Condition
)

// NewKinds returns the mapping for what is served. Reserved groups count as built-in, whatever is served in them.
func NewKinds(served []Served, reserved ...string) *Kinds {
	return matching.NewKinds(served, reserved...)
}

// Guarded are the API groups that names without a group never reach.
var Guarded = matching.Guarded

// ClusterScoped stands in resourceKinds for all cluster-scoped custom resources.
const ClusterScoped = matching.ClusterScoped
