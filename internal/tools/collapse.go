package tools

import (
	"fmt"
	"slices"

	"proviso.dev/proviso/internal/plan"
)

// others are the namespaces that no object of the policy is in.
const others = "(others)"

// unnamed is a change of a name that no rule mentions, which stands for all names except some.
type unnamed struct {
	plan.Change
	except []string
}

// collapse makes one entry of the same change for several subjects, of one that holds for every name, and of one that
// holds in every namespace.
func collapse(changes []plan.Change, in plan.Input) []planChange {
	slices.SortStableFunc(changes, plan.Change.Compare)
	everywhere := len(in.Namespaces) + 2 // another one, and none
	places := map[string]int{}
	fingerprint := func(c unnamed) string {
		c.Action.Namespace, c.Witness = "", nil
		return fmt.Sprintf("%+v", c)
	}
	all := overNames(changes, in.Names)
	for _, c := range all {
		places[fingerprint(c)]++
	}
	out := []planChange{}
	entries := map[string]int{}
	for _, c := range all {
		namespace := c.Action.Namespace
		if places[fingerprint(c)] == everywhere {
			if namespace != plan.Other {
				continue
			}
		} else if namespace == plan.Other {
			namespace = others
		}
		resource := c.Action.Resource
		if c.Action.Subresource != "" {
			resource += "/" + c.Action.Subresource
		}
		entry := planChange{Verb: c.Action.Verb, APIGroup: c.Action.Group, Resource: resource, Path: c.Action.Path, Namespace: namespace, Name: c.Action.Name, ExceptNames: c.except,
			Before: c.Before, After: c.After, Relation: c.Relation, Why: c.Why, Rule: c.Rule}
		same := fmt.Sprintf("%+v", entry)
		if w := c.Witness; w != nil {
			entry.Witness = &planWitness{User: w.Request.User, Groups: w.Request.Groups, Object: w.Object, OldObject: w.OldObject}
		}
		subject := subjectOf(c.Subject)
		at, seen := entries[same]
		if !seen {
			entry.Subject = &subject
			entries[same] = len(out)
			out = append(out, entry)
			continue
		}
		if first := out[at].Subject; first != nil {
			out[at].Subject, out[at].Subjects = nil, []planSubject{*first}
		}
		out[at].Subjects = append(out[at].Subjects, subject)
	}
	return out
}

// overNames drops changes of single names that are those of any other name as well, and notes the names for which that
// is not so.
func overNames(changes []plan.Change, names []string) (out []unnamed) {
	key := func(c plan.Change) string {
		c.Action.Name, c.Witness = "", nil
		return fmt.Sprintf("%+v", c)
	}
	any, covered := map[string]bool{}, map[string]map[string]bool{}
	for _, c := range changes {
		k := key(c)
		if c.Action.Name == "" {
			any[k] = true
			continue
		}
		if covered[k] == nil {
			covered[k] = map[string]bool{}
		}
		covered[k][c.Action.Name] = true
	}
	for _, c := range changes {
		k := key(c)
		switch {
		case c.Action.Name != "" && any[k]:
			continue
		case c.Action.Name == "" && c.Action.Path == "" && plan.HasName(c.Action):
			except := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return covered[k][name] })
			out = append(out, unnamed{c, except})
		default:
			out = append(out, unnamed{c, nil})
		}
	}
	return out
}
