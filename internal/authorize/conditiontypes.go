package authorize

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// typeSet collects the types of conditions, for metrics (CA-21). There is one, nearly always.
type typeSet []string

func (s *typeSet) add(d authorizer.ConditionsAwareDecision) {
	switch {
	case d.IsConditionsMap():
		m := d.ConditionsMap()
		s.addAll(m.DenyConditions())
		s.addAll(m.NoOpinionConditions())
		s.addAll(m.AllowConditions())
	case d.IsUnion():
		for _, sub := range d.UnionedDecisions() {
			s.add(sub)
		}
	}
}

func (s *typeSet) addAll(list iter.Seq[authorizer.Condition]) {
	for c := range list {
		if t := c.GetType(); t != "" && !slices.Contains(*s, t) {
			*s = append(*s, t)
		}
	}
}

func (s typeSet) String() string {
	if len(s) == 1 {
		return s[0]
	}
	slices.Sort(s)
	return strings.Join(s, ",")
}

func typesOf(all []answer) string {
	var s typeSet
	for _, a := range all {
		s.add(a.decision)
	}
	return s.String()
}
