package plan

import (
	"bytes"
	"encoding/binary"
	"slices"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
)

// strand is what differs between the two indexes for some subjects, with the questions that it reaches.
type strand struct {
	*ruleset.Strand
	reached []int
	known   bool
}

// reaches are the questions that a strand can be about, in order. They are found once.
func (p *planner) reaches(s *strand) []int {
	if s.known {
		return s.reached
	}
	s.known = true
	for i := range p.questions {
		q := &p.questions[i]
		attrs := q.action("", "").attributes(q.Resource)
		if slices.ContainsFunc(q.rights(), func(verb string) bool {
			attrs.Verb = verb
			return p.diff.Reaches(s.Strand, attrs)
		}) {
			s.reached = append(s.reached, i)
		}
	}
	return s.reached
}

// crowd are subjects with the same roles in the same places, before and after: all of them get the same answers, unless
// a condition looks at the caller.
type crowd struct {
	subjects []ruleset.Subject
	// questions are those that what differs for them reaches.
	questions []int
	// judged are the groups that each of them is in, without themselves.
	judged []ruleset.Subject
	// everywhere is true if what differs for them does so in all namespaces and outside them.
	everywhere bool
	// places are the namespaces that can matter, those with the same roles together.
	places [][]string
}

// crowds are all whom the difference is about, in order.
func (p *planner) crowds() (all []*crowd) {
	found := map[string]*crowd{}
	var key []byte
	for who := range p.concerned() {
		is := whocan.Judged(who)
		key = binary.AppendUvarint(key[:0], uint64(len(is)))
		key = append(key, is[len(is)-1].Name...)
		if len(is) == 1 {
			key = append(key[:0], "\x00alone "+who.Name...)
		}
		for _, one := range is {
			for _, i := range p.of[one] {
				key = binary.AppendUvarint(append(key, 0), uint64(i))
			}
		}
		for _, ix := range []*ruleset.Index{p.Before, p.After} {
			key = ix.AppendEverywhere(append(key, 0), who)
			for _, ns := range ix.NamespacesOf(who) {
				key = ix.AppendIn(append(append(key, ns...), 0), who, ns)
			}
		}
		c := found[string(key)]
		if c == nil {
			c = &crowd{judged: is[1:]}
			found[string(key)] = c
			all = append(all, c)
		}
		c.subjects = append(c.subjects, who)
	}
	for _, c := range all {
		slices.SortFunc(c.subjects, ruleset.Subject.Compare)
		p.locate(c)
	}
	slices.SortFunc(all, func(a, b *crowd) int { return a.subjects[0].Compare(b.subjects[0]) })
	return all
}

// concerned are the subjects that stand in what differs. If that is a group that people are in by themselves, it is
// everybody: a subject with its own rules about an action is said to gain or lose it, too.
func (p *planner) concerned() map[ruleset.Subject]bool {
	out := map[ruleset.Subject]bool{}
	for who := range p.of {
		out[who] = true
	}
	groups := map[ruleset.Subject]bool{}
	for who := range out {
		if is := whocan.Judged(who); len(is) == 1 {
			groups[who] = true
		}
	}
	if len(groups) == 0 {
		return out
	}
	for _, ix := range []*ruleset.Index{p.Before, p.After} {
		ix.Subjects(func(who ruleset.Subject) {
			if is := whocan.Judged(who); groups[is[len(is)-1]] {
				out[who] = true
			}
		})
	}
	return out
}

// locate finds where, and in which questions, what differs can matter to a crowd.
func (p *planner) locate(c *crowd) {
	is := append([]ruleset.Subject{c.subjects[0]}, c.judged...)
	asked := map[int]bool{}
	var local []string
	for _, i := range slices.Concat(p.of[is[0]], p.of[is[len(is)-1]]) {
		s := p.strands[i]
		for _, q := range p.reaches(s) {
			asked[q] = true
		}
		if ns, everywhere := s.Namespace(); everywhere {
			c.everywhere = true
		} else {
			local = append(local, ns)
		}
	}
	for q := range asked {
		c.questions = append(c.questions, q)
	}
	slices.Sort(c.questions)
	if c.everywhere {
		for _, ix := range []*ruleset.Index{p.Before, p.After} {
			for _, one := range is {
				local = append(local, ix.NamespacesOf(one)...)
			}
		}
	}
	slices.Sort(local)
	alike := map[string]int{}
	for _, ns := range slices.Compact(local) {
		var key []byte
		for _, ix := range []*ruleset.Index{p.Before, p.After} {
			for _, one := range is {
				key = ix.AppendIn(key, one, ns)
			}
		}
		at, known := alike[string(key)]
		if !known {
			at = len(c.places)
			alike[string(bytes.Clone(key))] = at
			c.places = append(c.places, nil)
		}
		c.places[at] = append(c.places[at], ns)
	}
}
