package plan

import (
	"proviso.dev/proviso/internal/ruleset"
)

// Ineffective is a rule that does nothing, and why.
type Ineffective struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// WithoutEffect lists the roles that nobody is bound to, and those bound of which no rule matches anything that is
// served.
func WithoutEffect(in Input, roles []ruleset.RoleRef) []Ineffective {
	out := []Ineffective{}
	hit := map[ruleset.RoleRef]bool{}
	for _, r := range in.Resources {
		for _, verb := range in.Verbs {
			for _, namespace := range append([]string{""}, in.Namespaces...) {
				in.After.Everyone(Action{Verb: verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: namespace}.attributes(r), func(h ruleset.Hit) { hit[h.Role()] = true })
				for _, name := range in.Names {
					in.After.Everyone(Action{Verb: verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: namespace, Name: name}.attributes(r), func(h ruleset.Hit) { hit[h.Role()] = true })
				}
			}
		}
	}
	for _, path := range in.Paths {
		for _, verb := range in.Verbs {
			in.After.Everyone(Action{Verb: verb, Path: path}.attributes(Resource{}), func(h ruleset.Hit) { hit[h.Role()] = true })
		}
	}
	for _, ref := range roles {
		switch {
		case len(in.After.BindingsOf(ref)) == 0:
			out = append(out, Ineffective{ref.String(), "nobody is bound to it"})
		case !hit[ref]:
			out = append(out, Ineffective{ref.String(), "none of its rules matches anything that is served"})
		}
	}
	return out
}
