package plan

import (
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// SameFor reports whether a request has the same result before and after, whatever its object is: then the object need
// not be known.
func SameFor(before, after *ruleset.Index, attrs authorizer.Attributes) bool {
	x, y := before.Decide(attrs), after.Decide(attrs)
	return x.Certainty == y.Certainty && access(x).Same(access(y), expr.NewRequest(attrs))
}

// LooksAtNamespace reports whether a condition on a request may look at its Namespace.
func LooksAtNamespace(ix *ruleset.Index, attrs authorizer.Attributes) bool {
	return slices.ContainsFunc(ix.Decide(attrs).Conditions, func(h ruleset.Hit) bool { return expr.LooksOf(rulecondition.Of(h).Condition).Namespace })
}

// RuleFor names the rule that makes the difference for a request.
func RuleFor(before, after *ruleset.Index, attrs authorizer.Attributes) string {
	return rule(before.Decide(attrs), after.Decide(attrs))
}
