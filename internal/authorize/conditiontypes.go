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
		for _, list := range []iter.Seq[authorizer.Condition]{m.DenyConditions(), m.NoOpinionConditions(), m.AllowConditions()} {
			for c := range list {
				if t := c.GetType(); t != "" && !slices.Contains(*s, t) {
					*s = append(*s, t)
				}
			}
		}
	case d.IsUnion():
		for _, sub := range d.UnionedDecisions() {
			s.add(sub)
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
