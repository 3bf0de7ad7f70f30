package suggest

import (
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// AnyOther stands for the namespaces that nothing names.
const AnyOther = "any-other-namespace"

// Loss is what is taken away: verbs of resources, in a namespace, in all that are not named, or, if that is empty, for
// the whole cluster.
type Loss struct {
	Namespace        string
	Verbs, Resources []string
}

// lost gathers what is held today and not afterwards: resources that lose the same verbs together. A right that stays
// for some names or fields is not lost.
func (s *suggester) lost(after *ruleset.Index) (all []Loss) {
	who := without(s.Who, mastersGroup)
	verbs := map[string][]string{}
	var order []string
	places := map[string]Use{}
	s.eachRight(func(u Use) {
		if !s.mayUse(s.Index, s.Who, u) || s.mayUse(after, who, u) {
			return
		}
		key := u.Namespace + " " + u.object()
		if verbs[key] == nil {
			order = append(order, key)
			places[key] = u
		}
		verbs[key] = append(verbs[key], u.Verb)
	})
	at := map[string]int{}
	for _, key := range order {
		u := places[key]
		same := u.Namespace + " " + strings.Join(verbs[key], ",")
		u.Namespace = ""
		if i, known := at[same]; known {
			all[i].Resources = append(all[i].Resources, u.object())
			continue
		}
		at[same] = len(all)
		all = append(all, Loss{Namespace: places[key].Namespace, Verbs: verbs[key], Resources: []string{u.object()}})
	}
	for i := range all {
		slices.Sort(all[i].Resources)
	}
	return all
}
