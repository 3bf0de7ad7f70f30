package selectors

import (
	"slices"
)

// Values is a set of values of one key: those listed or, with Not, all but those listed. Absent is true if an object
// without the key is included, too; a field is never absent, since selectors read a missing one as empty.
type Values struct {
	Not    bool
	List   []string // sorted
	Absent bool
}

// Of returns the set of the given values.
func Of(values ...string) Values { return Values{List: sorted(values)} }

// AllBut returns every value except the given ones, of an object that has the key.
func AllBut(values ...string) Values { return Values{Not: true, List: sorted(values)} }

// OrAbsent adds objects without the key.
func (v Values) OrAbsent() Values {
	v.Absent = true
	return v
}

func sorted(values []string) []string {
	out := slices.Clone(values)
	slices.Sort(out)
	return slices.Compact(out)
}

// Has reports whether a value is in the set.
func (v Values) Has(value string) bool { return slices.Contains(v.List, value) != v.Not }

// isEmpty reports whether nothing is in the set.
func (v Values) isEmpty() bool { return !v.Not && len(v.List) == 0 && !v.Absent }

func (v Values) equal(o Values) bool {
	return v.Not == o.Not && v.Absent == o.Absent && slices.Equal(v.List, o.List)
}

// and returns the intersection.
func (v Values) and(o Values) Values {
	out := Values{Absent: v.Absent && o.Absent}
	switch {
	case v.Not && o.Not:
		out.Not, out.List = true, sorted(append(slices.Clone(v.List), o.List...))
	case v.Not:
		out.List = filter(o.List, v.Has)
	default:
		out.List = filter(v.List, o.Has)
	}
	return out
}

// or returns the union.
func (v Values) or(o Values) Values {
	out := Values{Absent: v.Absent || o.Absent}
	switch {
	case v.Not && o.Not:
		out.Not, out.List = true, filter(v.List, func(s string) bool { return !o.Has(s) })
	case v.Not:
		out.Not, out.List = true, filter(v.List, func(s string) bool { return !o.Has(s) })
	case o.Not:
		out.Not, out.List = true, filter(o.List, func(s string) bool { return !v.Has(s) })
	default:
		out.List = sorted(append(slices.Clone(v.List), o.List...))
	}
	return out
}

// within reports whether the set is contained in the other one.
func (v Values) within(o Values) bool { return v.and(o).equal(v) }

func filter(values []string, keep func(string) bool) []string {
	var out []string
	for _, v := range values {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}
