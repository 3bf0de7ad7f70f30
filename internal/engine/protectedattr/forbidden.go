package protectedattr

import (
	"maps"
	"slices"
)

// forbidden is the set of values of one attribute that a caller may neither set nor remove at one level. It is what
// the level's protections come to once the caller's memberships are known, and says the same as permits.
type forbidden struct {
	// all turns the list round: every value but these.
	all    bool
	values []string
}

func (f forbidden) none() bool { return !f.all && len(f.values) == 0 }

func (f forbidden) equal(g forbidden) bool { return f.all == g.all && slices.Equal(f.values, g.values) }

func (l *level) forbidden(inTemplate bool, req *Request) forbidden {
	if l == nil {
		return forbidden{}
	}
	applies := func(p *protection) bool { return p.templates || !inTemplate }
	var f forbidden
	for _, p := range l.any {
		if !applies(p) {
			continue
		}
		if req.member(p) {
			return forbidden{}
		}
		f.all = true
	}
	for _, value := range slices.Sorted(maps.Keys(l.byValue)) {
		covered, member := false, false
		for _, p := range l.byValue[value] {
			if applies(p) {
				covered = true
				member = member || req.member(p)
			}
		}
		if f.all && member || !f.all && covered && !member {
			f.values = append(f.values, value)
		}
	}
	return f
}
