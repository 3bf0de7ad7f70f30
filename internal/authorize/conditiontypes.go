package authorize

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// typeSet collects the types of conditions, for metrics (CA-21). There is one, nearly always.
type typeSet struct {
	first string
	more  []string
}

func (s *typeSet) add(a *answer) {
	if a.set == nil {
		s.addDecision(a.decision)
		return
	}
	s.addAll(slices.Values(a.set.denies))
	s.addAll(slices.Values(a.set.allows))
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
		switch t := c.GetType(); {
		case t == "" || t == s.first || slices.Contains(s.more, t):
		case s.first == "":
			s.first = t
		default:
			s.more = append(s.more, t)
		}
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
		a := k.answer()
		s.add(&a)
	}
	return s.String()
}
