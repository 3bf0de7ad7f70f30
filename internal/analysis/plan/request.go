package plan

import (
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// SameFor reports whether a request has the same result before and after, whatever its object is: then the object need
// not be known.
func SameFor(before, after *ruleset.Index, attrs authorizer.Attributes) bool {
	x, y := before.Decide(attrs), after.Decide(attrs)
	return x.Certainty == y.Certainty && access(x).Same(access(y), expr.NewRequest(attrs))
}

// RuleFor names the rule that makes the difference for a request.
func RuleFor(before, after *ruleset.Index, attrs authorizer.Attributes) string {
	return rule(before.Decide(attrs), after.Decide(attrs))
}
