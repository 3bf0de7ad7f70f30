package authorize

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// typeSet collects the types of conditions, for metrics (CA-21). Nearly always there is one.
type typeSet struct {
	first string
	more  []string
}

func (s *typeSet) add(set *openSet, d *authorizer.ConditionsAwareDecision) {
	if set == nil {
		s.addDecision(*d)
		return
	}
	for _, c := range set.denies {
		s.addOne(c)
	}
	for _, c := range set.allows {
		s.addOne(c)
	}
}

func (s *typeSet) addDecision(d authorizer.ConditionsAwareDecision) {
	switch {
	case d.IsConditionsMap():
		m := d.ConditionsMap()
		s.addAll(m.DenyConditions())
		s.addAll(m.NoOpinionConditions())
		s.addAll(m.AllowConditions())
	case d.IsUnion():
		for _, sub := range d.UnionedDecisions() {
			s.addDecision(sub)
		}
	}
}

func (s *typeSet) addAll(list iter.Seq[authorizer.Condition]) {
	for c := range list {
		s.addOne(c)
	}
}

func (s *typeSet) addOne(c authorizer.Condition) {
	switch t := c.GetType(); {
	case t == "" || t == s.first || slices.Contains(s.more, t):
	case s.first == "":
		s.first = t
	default:
		s.more = append(s.more, t)
	}
}

func (s *typeSet) String() string {
	if len(s.more) == 0 {
		return s.first
	}
	all := append([]string{s.first}, s.more...)
	slices.Sort(all)
	return strings.Join(all, ",")
}

func typesOf(all []kept) string {
	var s typeSet
	for _, k := range all {
		s.add(k.set, k.decision)
	}
	return s.String()
}
