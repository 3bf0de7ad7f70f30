package ruleset

import (
	"encoding/binary"
	"slices"
)

// Alike groups subjects that have the same roles, everywhere and in the namespaces: every question there has the same
// answer for all members of a group. Subjects without roles are in no group. The groups and their members are sorted.
func (ix *Index) Alike(namespaces []string) [][]Subject {
	at, groups := map[string]int{}, [][]Subject(nil)
	var key []byte
	ix.subjects.Each(func(s *subject) bool {
		key = s.cluster.appendTo(s.master().appendTo(key[:0]))
		some := len(s.cluster)+len(s.master()) > 0
		for _, ns := range namespaces {
			var here local
			if found, ok := s.local().Get(ix.hash(ns), ns); ok {
				here, some = *found, true
			}
			key = here.rbac.appendTo(here.policy.appendTo(key))
		}
		if !some {
			return true
		}
		i, known := at[string(key)]
		if !known {
			i = len(groups)
			at[string(key)], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], s.key)
		return true
	})
	for _, g := range groups {
		slices.SortFunc(g, Subject.Compare)
	}
	slices.SortFunc(groups, func(a, b []Subject) int { return a[0].Compare(b[0]) })
	return groups
}

// appendTo appends a unique spelling of the roles.
func (g grants) appendTo(key []byte) []byte {
	key = binary.AppendUvarint(key, uint64(len(g)))
	for i := range g {
		key = binary.AppendUvarint(key, uint64(g[i].id))
	}
	return key
}
