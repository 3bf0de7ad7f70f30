package suggest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Place is a kind in a namespace, or in none.
type Place struct{ Namespace, Group, Resource string }

// conditioned reports whether a where is suggested for a verb: for those that touch an existing object by name.
func conditioned(verb string) bool { return verb == "update" || verb == "patch" || verb == "delete" }

// Crowded are the places of which so many objects were touched that their names are not listed: there a where is looked
// for, among the objects that are there.
func Crowded(uses []Use, maxNames int) []Place {
	names := map[right]map[string]bool{}
	for _, u := range uses {
		if !conditioned(u.Verb) || u.Subresource != "" || u.Name == "" {
			continue
		}
		at := right{namespace: u.Namespace, group: u.Group, resource: u.Resource, verb: u.Verb}
		if names[at] == nil {
			names[at] = map[string]bool{}
		}
		names[at][u.Name] = true
	}
	var out []Place
	for at, all := range names {
		if len(all) > maxNames {
			out = append(out, Place{at.namespace, at.group, at.resource})
		}
	}
	slices.SortFunc(out, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return slices.Compact(out)
}

// evidence is what is known of the object of a use: as it was recorded, and as it is. A where must hold before and
// after an update or patch, so an object as it is now says nothing of one that was not recorded.
func (s *suggester) evidence(u Use) []map[string]any {
	all := slices.Clone(s.Touched[u])
	if len(all) == 0 && verbs.Updates(u.Verb) {
		return nil
	}
	for _, o := range s.Live[Place{u.Namespace, u.Group, u.Resource}] {
		if nameOf(o) == u.Name {
			all = append(all, o)
		}
	}
	return all
}

// where is a condition that all objects meet which a right was used for, and that sets them apart from most others that
// are there; empty if there is none, or if it is not known what is there. In the master namespace there is none, since
// a rule of Policy there holds everywhere.
func (s *suggester) where(at right, names map[string]bool) string {
	live := s.Live[Place{at.namespace, at.group, at.resource}]
	if len(live) == 0 || at.namespace == s.Index.MasterNamespace() || s.Holds == nil || !conditioned(at.verb) || at.sub != "" || at.rule != (rulePlace{}) {
		return ""
	}
	var touched []map[string]any
	for _, u := range s.Uses {
		if placeOf(u) != (place{at.namespace, at.group, at.resource, ""}) || u.Verb != at.verb || !names[u.Name] {
			continue
		}
		known := s.evidence(u)
		if len(known) == 0 {
			return ""
		}
		touched = append(touched, known...)
	}
	var others []map[string]any
	for _, o := range live {
		if !s.touches(at, nameOf(o)) {
			others = append(others, o)
		}
	}
	best, apart := "", 0
	for _, c := range shared(touched) {
		n := 0
		for _, o := range others {
			if c.of(o) != c.value {
				n++
			}
		}
		if n > apart && 2*n >= len(others) {
			best, apart = c.text(), n
		}
	}
	if best == "" || slices.ContainsFunc(touched, func(o map[string]any) bool { return !s.Holds(best, o) }) {
		return ""
	}
	return best
}

// touches reports whether any object of the name was touched, by whatever verb.
func (s *suggester) touches(at right, name string) bool {
	return slices.ContainsFunc(s.Uses, func(u Use) bool {
		return u.Name == name && u.Namespace == at.namespace && u.Group == at.group && u.Resource == at.resource
	})
}

// wheresOf are the conditions of the suggestion of which the engine says that they hold for all that is known of the
// object.
func (s *suggester) wheresOf(u Use) (holding []string) {
	known := s.evidence(u)
	for _, where := range s.wheres {
		if len(known) > 0 && !slices.ContainsFunc(known, func(o map[string]any) bool { return !s.Holds(where, o) }) {
			holding = append(holding, conditionText(&policyv1alpha1.PolicyRule{Where: where})+fmt.Sprint([]string(nil)))
		}
	}
	return holding
}

// trait is a label or a field with its value.
type trait struct {
	path  []string
	value any
}

func (t trait) of(object map[string]any) any {
	var at any = object
	for _, step := range t.path {
		inside, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = inside[step]
	}
	return at
}

func (t trait) isLabel() bool { return t.path[0] == "metadata" }

// text is the trait as a condition.
func (t trait) text() string {
	value := fmt.Sprintf("%v", t.value)
	if text, ok := t.value.(string); ok {
		value = fmt.Sprintf("%q", text)
	}
	if t.isLabel() {
		return fmt.Sprintf("resource.metadata.labels[%q] == %s", t.path[2], value)
	}
	return "resource." + strings.Join(t.path, ".") + " == " + value
}

var (
	plainText = regexp.MustCompile(`^[ !#-\[\]-~]{1,100}$`) // nothing that needs to be escaped
	plainName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9]{0,62}$`)
)

// maxTraits bounds how many traits of an object are looked at.
const maxTraits = 64

// shared are the traits that all objects have, labels first, in order.
func shared(objects []map[string]any) []trait {
	if len(objects) == 0 {
		return nil
	}
	all := traitsOf(objects[0])
	return slices.DeleteFunc(all, func(t trait) bool {
		return slices.ContainsFunc(objects, func(o map[string]any) bool { return t.of(o) != t.value })
	})
}

// traitsOf are the labels of an object, and plain values up to three steps below what is neither metadata nor status.
func traitsOf(object map[string]any) (all []trait) {
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	for key, value := range labels {
		if text, ok := value.(string); ok && plainText.MatchString(text) && plainText.MatchString(key) {
			all = append(all, trait{[]string{"metadata", "labels", key}, text})
		}
	}
	var below func(path []string, value any)
	below = func(path []string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, inside := range v {
				if len(path) < 3 && plainName.MatchString(key) && (len(path) > 0 || !slices.Contains([]string{"apiVersion", "kind", "metadata", "status", "data", "stringData"}, key)) {
					below(append(slices.Clone(path), key), inside)
				}
			}
		case string:
			if plainText.MatchString(v) {
				all = append(all, trait{path, v})
			}
		case bool, int64:
			all = append(all, trait{path, v})
		}
	}
	below(nil, object)
	slices.SortFunc(all, func(a, b trait) int {
		if a.isLabel() != b.isLabel() {
			if a.isLabel() {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.text(), b.text())
	})
	return all[:min(len(all), maxTraits)]
}

func nameOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}
