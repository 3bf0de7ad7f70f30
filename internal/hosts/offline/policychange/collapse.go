package policychange

import (
	"strings"

	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
)

// sameChange is what entries have in common that are one entry for several subjects.
type sameChange struct {
	action            plan.Action
	names, namespaces string
	before, after     plan.Effect
	relation          compare.Relation
	rule, why         string
}

// collapse makes one entry of the same change for several subjects. limit is how many of them are named, the others are
// counted; 0 names all.
func collapse(changes []plan.Change, limit int) []Change {
	out := []Change{}
	index := map[sameChange]int{}
	subjects := [][]ruleset.Subject{}
	for _, c := range changes {
		same := sameChange{action: c.Action, names: strings.Join(c.ExceptNames, "\x00"), namespaces: strings.Join(c.ExceptNamespaces, "\x00"),
			before: c.Before, after: c.After, relation: c.Relation, rule: c.Rule, why: c.Why}
		if at, seen := index[same]; seen {
			subjects[at] = append(subjects[at][:len(subjects[at]):len(subjects[at])], c.Subjects...)
			continue
		}
		index[same] = len(out)
		resource := c.Action.Resource
		if c.Action.Subresource != "" {
			resource += "/" + c.Action.Subresource
		}
		entry := Change{Verb: c.Action.Verb, APIGroup: c.Action.Group, Resource: resource, Path: c.Action.Path, Namespace: c.Action.Namespace, ExceptNamespaces: c.ExceptNamespaces,
			Name: c.Action.Name, ExceptNames: c.ExceptNames, Before: c.Before, After: c.After, Relation: c.Relation, Why: c.Why, Rule: c.Rule}
		if w := c.Witness; w != nil {
			entry.Witness = &Witness{User: w.Request.User, Groups: w.Request.Groups, Object: w.Object, OldObject: w.OldObject, Target: w.Target}
		}
		out, subjects = append(out, entry), append(subjects, c.Subjects)
	}
	for i := range out {
		out[i].setSubjects(subjects[i], limit)
	}
	return out
}

// setSubjects names the subjects of an entry, in order.
func (c *Change) setSubjects(all []ruleset.Subject, limit int) {
	if len(all) == 1 {
		one := offline.SubjectOf(all[0])
		c.Subject = &one
		return
	}
	if limit > 0 && len(all) > limit {
		c.MoreSubjects, all = len(all)-limit, all[:limit]
	}
	for _, s := range all {
		c.Subjects = append(c.Subjects, offline.SubjectOf(s))
	}
}

// tally counts the subjects that gain and lose something, and whose conditions change otherwise.
func tally(changes []plan.Change) Tally {
	sets := [3]map[ruleset.Subject]bool{{}, {}, {}}
	type crowd struct {
		first *ruleset.Subject
		way   int
	}
	counted := map[crowd]bool{}
	for _, c := range changes {
		way := direction(c)
		if counted[crowd{&c.Subjects[0], way}] { // the changes of one crowd share its subjects
			continue
		}
		counted[crowd{&c.Subjects[0], way}] = true
		for _, s := range c.Subjects {
			sets[way][s] = true
		}
	}
	return Tally{Gain: len(sets[0]), Lose: len(sets[1]), Change: len(sets[2])}
}

// direction is 0 for more, 1 for less and 2 for something else.
func direction(c plan.Change) int {
	strength := map[plan.Effect]int{plan.If: 1, plan.Yes: 2}
	switch before, after := strength[c.Before], strength[c.After]; {
	case after > before, after == before && c.Relation == compare.Wider:
		return 0
	case after < before, after == before && c.Relation == compare.Narrower:
		return 1
	}
	return 2
}
