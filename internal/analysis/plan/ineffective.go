package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
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

// WithoutEffect lists the rules of roles that decide nothing: the role has no subjects, no served resource matches, or
// other rules decide wherever it matches. unknown reports kinds that are not served.
func WithoutEffect(in Input, roles []Written, unknown func(kind string) bool) []Ineffective {
	e := &effects{Input: in, index: in.After, questions: questionsOf(in), works: map[ruleOf]bool{}, shadows: map[ruleOf]string{}, local: map[ruleOf]bool{}}
	out := []Ineffective{}
	for _, r := range roles {
		if len(in.After.BindingsOf(r.Role)) == 0 {
			out = append(out, Ineffective{r.Role.String(), "nobody is bound to it"})
			continue
		}
		e.role(r.Role)
		for i, kinds := range r.Kinds {
			at := ruleOf{r.Role, i}
			missing := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return unknown == nil || !unknown(kind) })
			reason := ""
			switch {
			case e.works[at]:
			case e.shadows[at] != "":
				reason = "shadowed by " + e.shadows[at] + ", which decides wherever it matches"
			case e.local[at]:
				reason = "such writes in the master namespace take a right that is held everywhere, by a ClusterRoleBinding or a Policy role"
			case len(missing) > 0:
				reason = "no such kind: " + strings.Join(missing, ", ")
			default:
				reason = "it never matches: no served resource has such a group, kind, verb and name"
			}
			if reason != "" {
				out = append(out, Ineffective{fmt.Sprintf("%s rule %d", r.Role, i), reason})
			}
		}
	}
	return out
}

// effects are found by asking what the rules of a role are about, for those who have it.
type effects struct {
	Input
	index     *ruleset.Index
	questions []question
	works     map[ruleOf]bool
	shadows   map[ruleOf]string
	// local are rules about requests for which a right in one namespace does not count.
	local map[ruleOf]bool
}

// role looks at one role, until all its rules are known to work.
func (e *effects) role(ref ruleset.RoleRef) {
	about, open := map[int][]int{}, map[int]bool{}
	var asked []int
	for i := range e.questions {
		q := &e.questions[i]
		if rules := e.index.RulesAbout(ref, q.action("", "").attributes(q.Resource)); len(rules) > 0 {
			about[i], asked = rules, append(asked, i)
			for _, rule := range rules {
				open[rule] = true
			}
		}
	}
	for _, m := range e.members(ref) {
		for _, i := range asked {
			if slices.ContainsFunc(about[i], func(rule int) bool { return open[rule] }) {
				e.look(ref, m, &e.questions[i], open)
			}
		}
		if len(open) == 0 {
			return
		}
	}
}

// member is a subject that has a role, for all that have the same roles there, and the places where that can matter.
type member struct {
	ruleset.Subject
	namespaces []string
	everywhere bool
}

func (e *effects) members(ref ruleset.RoleRef) (all []member) {
	seen := map[string]bool{}
	e.index.Members(ref, func(namespace string, everywhere bool, s ruleset.Subject) {
		m := member{Subject: s, everywhere: everywhere, namespaces: []string{namespace}}
		if everywhere {
			m.namespaces = nil
			for _, is := range whocan.Judged(s) {
				m.namespaces = append(m.namespaces, e.index.NamespacesOf(is)...)
			}
			slices.Sort(m.namespaces)
			m.namespaces = append(slices.Compact(m.namespaces), Other, "")
		}
		is := whocan.Judged(s)
		key := e.index.AppendEverywhere([]byte(is[len(is)-1].Name+"\x00"), s)
		for _, ns := range m.namespaces {
			key = e.index.AppendIn(append(append(key, ns...), 0), s, ns)
		}
		if !seen[string(key)] {
			seen[string(key)] = true
			all = append(all, m)
		}
	})
	slices.SortFunc(all, func(a, b member) int {
		return cmp.Or(a.Compare(b.Subject), slices.Compare(a.namespaces, b.namespaces))
	})
	return all
}

// look finds the rules of the role by which a subject stands as they do: those work.
func (e *effects) look(ref ruleset.RoleRef, m member, q *question, open map[int]bool) {
	namespaces := m.namespaces
	if q.isNamespace() {
		namespaces = []string{""}
	} else if q.path != "" || !q.Namespaced {
		if !m.everywhere {
			return
		}
		namespaces = []string{""}
	}
	attrs := q.action("", "").attributes(q.Resource)
	names := []string{""}
	if q.path == "" {
		names = e.index.NamesFor(names, attrs, whocan.Judged(m.Subject)...)
		if q.isNamespace() {
			names = append(names, m.namespaces...)
		}
		slices.Sort(names)
	}
	for _, namespace := range namespaces {
		for _, name := range slices.Compact(names) {
			action := q.action(namespace, name)
			attrs := e.asked(action, q.Resource)
			if e.clusterWide(action, q.Resource) {
				for rule := range open {
					at := ruleOf{ref, rule}
					e.local[at] = e.local[at] || e.index.Applies(action.attributes(q.Resource), m.Subject, ref, rule)
				}
			}
			deciding := deciding(standing(e.index, attrs, m.Subject))
			if len(deciding) == 0 {
				continue
			}
			for _, d := range deciding {
				if at := (ruleOf{ref, d.RuleIndex()}); d.Role() == ref {
					e.works[at] = true
					delete(open, at.rule)
				}
			}
			for rule := range open {
				if at := (ruleOf{ref, rule}); e.shadows[at] == "" && e.index.Applies(attrs, m.Subject, ref, rule) {
					e.shadows[at] = named(deciding[0])
				}
			}
		}
	}
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
