package policychange

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/snapshot"
)

// looking finds the rules whose conditions look at something that a change changes, on both sides of it.
type looking struct {
	sides [2]side
	// verbs are all that rules tell apart.
	verbs []string
}

// side is one side of a change: its access rules, its rules with conditions, and the controllers of Kubernetes.
type side struct {
	host        *offline.Host
	access      []*accessv1alpha1.AccessRule
	conditional map[conditional]*matching.Rule
	controllers []ruleset.Subject
	holders     map[ruleset.RoleRef]*holders // found when they are needed
}

// conditional is a rule with a condition.
type conditional struct {
	role  ruleset.RoleRef
	index int
}

func (c conditional) String() string { return fmt.Sprintf("%s rule %d", c.role, c.index) }

// holders are those to whom a role is bound: everywhere, and by namespace.
type holders struct {
	everywhere []string
	in         map[string][]string
}

func newLooking(before, after *offline.Host, verbs []string) (*looking, error) {
	l := &looking{verbs: verbs}
	for i, h := range []*offline.Host{before, after} {
		s := &l.sides[i]
		s.host, s.conditional, s.holders = h, map[conditional]*matching.Rule{}, map[ruleset.RoleRef]*holders{}
		rules, err := h.Files().Objects(snapshot.AccessRules)
		if err != nil {
			return nil, err
		}
		s.access = snapshot.Of[*accessv1alpha1.AccessRule](rules)
		if s.controllers, err = controllersOf(h); err != nil {
			return nil, err
		}
		h.Snapshot().Rules.Definitions(func(d *ruleset.Definition) {
			for index, rule := range d.Rules {
				if rule != nil && rule.Cond != nil {
					s.conditional[conditional{d.Ref, index}] = rule
				}
			}
		})
	}
	return l, nil
}

// atNamespace reports whether the condition of a rule may look at the Namespace of a request.
func atNamespace(rule *matching.Rule) bool {
	compiled, known := rule.Cond.(*rulecondition.Compiled)
	return !known || compiled == nil || expr.LooksOf(compiled.Ready().Condition).Namespace
}

// about reports whether a rule is about objects of a resource.
func (l *looking) about(s *side, c conditional, of schema.GroupResource) bool {
	attrs := authorizer.AttributesRecord{APIGroup: of.Group, APIVersion: "*", Resource: of.Resource, Namespace: "any-namespace", ResourceRequest: true}
	return slices.ContainsFunc(l.verbs, func(verb string) bool {
		attrs.Verb = verb
		return slices.Contains(s.host.Snapshot().Rules.RulesAbout(c.role, attrs), c.index)
	})
}

// who has a role, by a binding or by asking for it; in one namespace, or anywhere if there is no name. covers reports
// whether an access rule covers the place.
func (s *side) who(role ruleset.RoleRef, namespace string, covers func(*accessv1alpha1.AccessRule) bool) (names []string) {
	h := s.holders[role]
	if h == nil {
		h = &holders{in: map[string][]string{}}
		s.host.Snapshot().Rules.Members(role, func(in string, everywhere bool, who ruleset.Subject) {
			if name := offline.SubjectOf(who).String(); everywhere {
				h.everywhere = append(h.everywhere, name)
			} else {
				h.in[in] = append(h.in[in], name)
			}
		})
		s.holders[role] = h
	}
	names = slices.Concat(h.everywhere, h.in[namespace])
	if namespace == "" {
		for _, some := range h.in {
			names = append(names, some...)
		}
	}
	for _, r := range s.access {
		if snapshot.RoleOf(r.Spec.RoleRef) == role && covers(r) {
			names = append(names, askers(r)+" by AccessRule "+r.Name)
		}
	}
	return names
}

// grouped are lines that are the same for several objects, which they name.
type grouped struct {
	order []sentence
	names map[sentence][]string
}

// sentence is what a line says in front of the names, and behind them.
type sentence struct{ head, tail string }

func (g *grouped) add(name string, line sentence) {
	if g.names == nil {
		g.names = map[sentence][]string{}
	}
	if g.names[line] == nil {
		g.order = append(g.order, line)
	}
	g.names[line] = append(g.names[line], name)
}

func (g *grouped) lines() (lines []string) {
	for _, line := range g.order {
		lines = append(lines, line.head+several(g.names[line])+line.tail)
	}
	return lines
}

// several names each once, in order, and counts those that are too many.
func several(all []string) string {
	all = slices.Sorted(maps.Keys(setOf(all)))
	if more := len(all) - mostBlinded; more > 0 {
		all = append(all[:mostBlinded], fmt.Sprintf("and %d others", more))
	}
	return strings.Join(all, ", ")
}

func setOf(all []string) map[string]bool {
	set := map[string]bool{}
	for _, one := range all {
		set[one] = true
	}
	return set
}
