package validate

import (
	"fmt"
	"slices"
	"strings"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Warnings says which parts of the rules have no effect as they are written. names tells which kinds of a rule nothing
// serves now, and which of its names do not reach what has them, since it is in a guarded API group; reads says
// that reads are decided under a condition.
func Warnings(rules []policy.PolicyRule, names func(policy.PolicyRule) (unserved, guarded []string), reads bool) []string {
	var all []string
	for i, rule := range rules {
		warn := func(format string, args ...any) {
			all = append(all, fmt.Sprintf("rules[%d]", i)+fmt.Sprintf(format, args...))
		}
		for j, verb := range rule.Verbs {
			plain := strings.TrimPrefix(verb, "-")
			if !verbs.IsKnown(plain) {
				warn(".verbs[%d]: %q is not a verb of Kubernetes or Proviso: it matches only requests with exactly this verb", j, verb)
			}
		}
		unserved, guarded := names(rule)
		for _, kind := range guarded {
			warn(".resourceKinds: %q does not reach guarded API groups without a group: write it with its group", kind)
		}
		for _, kind := range unserved {
			warn(".resourceKinds: no served resource or kind is named %q: it has no effect until one is", kind)
		}
		// A deny rule is held against the name of each object.
		if !rule.Deny && len(rule.ResourceNames) > 0 && !slices.ContainsFunc(rule.ResourceKinds, func(k string) bool { return strings.Contains(k, "/") }) {
			for _, verb := range []string{verbs.Create, verbs.DeleteCollection} {
				if slices.Contains(rule.Verbs, verb) {
					warn(".resourceNames: has no effect on %s, whose requests have no name: the rule does not match them; write a separate rule with when: object.metadata.name == … for that", verb)
				}
			}
		}
		if how := effects(rule); how != "" {
			warn(": controllers can still delete %s; deny what sets them in motion too (docs/explanation/effects.md)", how)
		}
		if !reads && !rule.Deny && slices.Contains(rule.Verbs, "get") && (rule.Where != "" || strings.Contains(strings.ToLower(rule.When), "object")) {
			warn(": get is never allowed by a rule whose condition needs the object: reads are not checked against it; grant get in a rule without a condition")
		}
	}
	return all
}
