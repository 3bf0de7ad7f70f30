package protectedattr

import (
	"maps"
	"slices"
)

// forbidden is a set of values of one attribute.
type forbidden struct {
	// all inverts the list: every value except these.
	all    bool
	values []string
}

func (f forbidden) none() bool { return !f.all && len(f.values) == 0 }

func (f forbidden) equal(g forbidden) bool { return f.all == g.all && slices.Equal(f.values, g.values) }

// denied are the values of one attribute that a caller may not set, and those that it may not replace or remove, at one
// level and place. It is computed from the level's protections and the caller's memberships, and means the same as
// permits and releases. The two differ only for values that are not listed (PA-14).
type denied struct{ set, gone forbidden }

func (d denied) none() bool { return d.set.none() && d.gone.none() }

func (d denied) same() bool { return d.set.equal(d.gone) }

func (d denied) equal(e denied) bool { return d.set.equal(e.set) && d.gone.equal(e.gone) }

func (l *level) denied(at place, req *Request) denied {
	if l == nil {
		return denied{}
	}
	var set forbidden
	for _, p := range applying(l.any, at, req) {
		if req.member(p) {
			return denied{}
		}
		set.all = true
	}
	closed := len(l.closing(at, req)) > 0
	set.all = set.all || closed
	var others []string // listed values of which the caller is not a member
	for _, value := range slices.Sorted(maps.Keys(l.byValue)) {
		covering := applying(l.byValue[value], at, req)
		member := slices.ContainsFunc(covering, req.member)
		if set.all && member || !set.all && len(covering) > 0 && !member {
			set.values = append(set.values, value)
		}
		if len(covering) > 0 && !member {
			others = append(others, value)
		}
	}
	if closed && slices.ContainsFunc(l.applying(at, req), req.member) {
		return denied{set: set, gone: forbidden{values: others}}
	}
	return denied{set, set}
}
