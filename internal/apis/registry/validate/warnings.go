package validate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/ruleset"
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
		if why := holdsNever(rule); why != "" {
			warn("%s", why)
		}
		if !reads && !rule.Deny && slices.Contains(rule.Verbs, "get") && (rule.Where != "" || strings.Contains(strings.ToLower(rule.When), "object")) {
			warn(": get is never allowed by a rule whose condition needs the object: reads are not checked against it; grant get in a rule without a condition")
		}
	}
	return all
}

// otherBodies are subresources whose requests have a body of another kind than their resource.
var otherBodies = []string{"binding", "eviction", "scale", "token"}

// readsObject finds a when that reads a field of the object.
var readsObject = regexp.MustCompile(`(^|[^\w.])(object|oldObject)\.`)

// holdsNever is what is wrong with a condition of a rule that is only about requests without an object of their own.
func holdsNever(rule policy.PolicyRule) string {
	connections, bodies := onlyAbout(rule)
	follows := "the rule allows nothing"
	if rule.Deny {
		follows = "the rule denies whatever the object is"
	}
	// On a connection that the rule names, where is about the target.
	switch named := ruleset.NamedConnections(&rule) != 0; {
	case rule.Where != "" && connections && !named:
		return ".where: is about objects, and such a connection has none: " + follows +
			"; write it for exec, attach, portforward or proxy of pods, or proxy of services or nodes"
	case rule.Where != "" && bodies && !named:
		return ".where: is about objects, and the requests of the rule have bodies of another kind: " + follows + "; write when"
	case connections && readsObject.MatchString(rule.When):
		return ".when: object and oldObject are null on a connection: " + follows + "; write target.… for what is connected to"
	}
	return ""
}

// onlyAbout reports whether a rule is only about connections, or only about requests that are connections or have
// bodies of another kind.
func onlyAbout(rule policy.PolicyRule) (connections, bodies bool) {
	if len(rule.ResourceKinds) == 0 {
		return false, false
	}
	byVerb := len(rule.Verbs) > 0 && !slices.ContainsFunc(rule.Verbs, func(v string) bool { return !connect.StandsIn(v) })
	connections, bodies = true, true
	for _, kind := range rule.ResourceKinds {
		_, sub, _ := strings.Cut(strings.TrimPrefix(kind, "-"), "/")
		sub, _, _ = strings.Cut(sub, ".")
		connects := byVerb || connect.Connects(sub) && !strings.HasPrefix(kind, "-")
		connections = connections && connects
		bodies = bodies && (connects || slices.Contains(otherBodies, sub) && !strings.HasPrefix(kind, "-"))
	}
	return connections, bodies
}
