package plan

import (
	"fmt"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/ruleset"
)

// Ineffective is a rule that does nothing, and why.
type Ineffective struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// Written is a role as it was written.
type Written struct {
	Role ruleset.RoleRef
	// Kinds are those that each of its rules names.
	Kinds [][]string
}

// rule is one of a role.
type ruleOf struct {
	role ruleset.RoleRef
	rule int
}

// WithoutEffect lists the rules of roles that decide nothing: nobody is bound to the role, nothing that is served
// matches, or other rules decide wherever it matches. unknown tells the kinds that nobody serves.
func WithoutEffect(in Input, roles []Written, unknown func(kind string) bool) []Ineffective {
	e := &effects{Input: in, wanted: map[ruleset.RoleRef]bool{}, works: map[ruleOf]bool{}, shadows: map[ruleOf]string{}}
	for _, r := range roles {
		e.wanted[r.Role] = true
	}
	e.walk()
	out := []Ineffective{}
	for _, r := range roles {
		if len(in.After.BindingsOf(r.Role)) == 0 {
			out = append(out, Ineffective{r.Role.String(), "nobody is bound to it"})
			continue
		}
		for i, kinds := range r.Kinds {
			at := ruleOf{r.Role, i}
			missing := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return unknown == nil || !unknown(kind) })
			reason := ""
			switch {
			case e.works[at]:
			case e.shadows[at] != "":
				reason = "shadowed by " + e.shadows[at] + ", which decides wherever it matches"
			case len(missing) > 0:
				reason = "no such kind: " + strings.Join(missing, ", ")
			default:
				reason = "it never matches: nothing that is served has such a group, kind, verb and name"
			}
			if reason != "" {
				out = append(out, Ineffective{fmt.Sprintf("%s rule %d", r.Role, i), reason})
			}
		}
	}
	return out
}

// effects are found by walking through every action.
type effects struct {
	Input
	wanted  map[ruleset.RoleRef]bool
	works   map[ruleOf]bool
	shadows map[ruleOf]string
}

func (e *effects) walk() {
	names := append([]string{""}, e.Names...)
	for _, r := range e.Resources {
		namespaces := []string{""}
		if r.Namespaced {
			namespaces = append(slices.Clone(e.Namespaces), Other, "")
		}
		for _, verb := range e.Verbs {
			for _, namespace := range namespaces {
				if !e.Touched.in(namespace) {
					continue
				}
				for _, name := range names {
					e.action(r, Action{Verb: verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: namespace, Name: name})
				}
			}
		}
	}
	for _, path := range e.Paths {
		for _, verb := range e.Verbs {
			e.action(Resource{}, Action{Verb: verb, Path: path})
		}
	}
}

// action looks at the rules of the roles that match an action. A rule works if it is among those by which somebody
// stands as they do.
func (e *effects) action(r Resource, a Action) {
	attrs := a.attributes(r)
	e.After.Everyone(attrs, func(h ruleset.Hit) {
		at := ruleOf{h.Role(), h.RuleIndex()}
		if !e.wanted[at.role] || e.works[at] {
			return
		}
		deciding := deciding(standing(e.After, attrs, h.Subject()))
		for _, d := range deciding {
			if d.Role() == at.role && d.RuleIndex() == at.rule {
				e.works[at] = true
				return
			}
		}
		if len(deciding) > 0 && e.shadows[at] == "" {
			e.shadows[at] = named(deciding[0])
		}
	})
}

// deciding are the rules without which a standing could be another.
func deciding(s ruleset.Standing) []ruleset.Hit {
	switch {
	case s.Certainty == ruleset.Always:
		return []ruleset.Hit{s.Allow}
	case s.Certainty == ruleset.Never && s.Deny.Found():
		return []ruleset.Hit{s.Deny}
	}
	return hits(s)
}
