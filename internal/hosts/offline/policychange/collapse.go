package policychange

import (
	"slices"
	"strings"

	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
	"proviso.dev/proviso/internal/hosts/offline"
)

// sameChange is what entries have in common that are one entry for several subjects.
type sameChange struct {
	action            plan.Action
	names, namespaces string
	before, after     plan.Effect
	relation          compare.Relation
	rule, why         string
	whole             bool
}

// roleHolders are the subjects of roles, by the names that changes call roles by.
type roleHolders map[string]map[ruleset.Subject]bool

// roleHoldersOf are those of the roles that changes name.
func roleHoldersOf(ix *ruleset.Index, changes []plan.Change) roleHolders {
	out := roleHolders{}
	for _, c := range changes {
		out[roleOf(c)] = map[ruleset.Subject]bool{}
	}
	ix.Definitions(func(d *ruleset.Definition) {
		if has := out[strings.TrimPrefix(d.Ref.Namespace+"/"+d.Ref.Name, "/")]; has != nil {
			ix.Members(d.Ref, func(_ string, _ bool, s ruleset.Subject) { has[s] = true })
		}
	})
	return out
}

func roleOf(c plan.Change) string {
	role, _, _ := strings.Cut(c.Rule, " rule ")
	return role
}

// has reports whether all of some subjects have a role, and whether none of them has it.
func (h roleHolders) has(role string, subjects []ruleset.Subject) (all, none bool) {
	all, none = true, true
	for _, s := range subjects {
		some := slices.ContainsFunc(whocan.Judged(s), func(is ruleset.Subject) bool { return h[role][is] })
		all, none = all && some, none && !some
	}
	return all, none
}

// whole reports whether a change is that its subjects get or lose a role.
func whole(before, after roleHolders, c plan.Change) bool {
	had, hadNot := before.has(roleOf(c), c.Subjects)
	have, haveNot := after.has(roleOf(c), c.Subjects)
	return had && haveNot || hadNot && have
}

// collapse makes one entry of the same change for several subjects. limit is how many of them are named, the others are
// counted; 0 names all.
func collapse(changes []plan.Change, before, after roleHolders, limit int) []Change {
	out := []Change{}
	index := map[sameChange]int{}
	type gain struct {
		first *ruleset.Subject // the changes of one crowd share its subjects
		role  string
	}
	known := map[gain]bool{}
	subjects := [][]ruleset.Subject{}
	for _, c := range changes {
		of := gain{&c.Subjects[0], roleOf(c)}
		if _, seen := known[of]; !seen {
			known[of] = whole(before, after, c)
		}
		same := sameChange{action: c.Action, names: strings.Join(c.ExceptNames, "\x00"), namespaces: strings.Join(c.ExceptNamespaces, "\x00"),
			before: c.Before, after: c.After, relation: c.Relation, rule: c.Rule, why: c.Why, whole: known[of]}
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
			Name: c.Action.Name, ExceptNames: c.ExceptNames, Before: c.Before, After: c.After, Relation: c.Relation, Why: c.Why, Rule: c.Rule, Whole: same.whole}
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
