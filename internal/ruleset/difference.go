package ruleset

import (
	"reflect"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Difference is what two indexes do not have in common: roles that differ, and bindings. Whoever is in none of it
// stands the same in both, whatever is asked.
type Difference struct {
	before, after *Index
	strands       map[strandKey]*Strand
	roles         map[RoleRef]*roleDifference
	byID          map[uint32]*roleDifference // the same, by the number that a role has before
	renamed       func(*role) bool
}

// Strand is a role in a scope that some subjects have in one index only, or that has other rules in the other one.
type Strand struct {
	scope    scope
	sides    [2]*role
	common   [2][]bool // rules that both sides have, by position
	subjects map[Subject]bool
}

type strandKey struct {
	scope scope
	role  RoleRef
	sides [2]bool
}

// roleDifference is how a role differs.
type roleDifference struct {
	sides  [2]*role
	same   bool
	common [2][]bool
}

// Diff compares two indexes, however they came about. It takes as long as looking at each binding once.
func Diff(before, after *Index) *Difference {
	d := &Difference{before: before, after: after, strands: map[strandKey]*Strand{}, roles: map[RoleRef]*roleDifference{}, byID: map[uint32]*roleDifference{}, renamed: func(*role) bool { return false }}
	if before.kinds != after.kinds {
		names, all := before.kinds.Changed(after.kinds)
		d.renamed = func(r *role) bool {
			return all && len(r.names) > 0 || slices.ContainsFunc(r.names, func(name string) bool { return names[name] })
		}
	}
	both := 0
	before.bindings.Each(func(ref BindingRef, b *binding) bool {
		now, still := after.bindings.Get(after.hashBinding(ref), ref)
		if still {
			both++
		}
		d.binding(b, now)
		return true
	})
	if both == after.bindings.Len() {
		return d
	}
	after.bindings.Each(func(ref BindingRef, b *binding) bool {
		if _, known := before.bindings.Get(before.hashBinding(ref), ref); !known {
			d.binding(nil, b)
		}
		return true
	})
	return d
}

// Strands are what differs, in no order.
func (d *Difference) Strands() (all []*Strand) {
	for _, s := range d.strands {
		all = append(all, s)
	}
	return all
}

// binding notes how a binding differs; nil where it is not.
func (d *Difference) binding(was, is *binding) {
	if was != nil && is != nil && was.role == is.role {
		r := d.byID[was.id]
		if r == nil {
			r = d.role(was.role)
			d.byID[was.id] = r
		}
		if r.same && slices.Equal(was.subjects, is.subjects) {
			return
		}
		had, has := was.unique(), is.unique()
		for _, s := range had {
			switch stays := slices.Contains(has, s); {
			case !stays:
				d.note(was, [2]bool{true, false}, s)
			case !r.same:
				d.note(was, [2]bool{true, true}, s)
			}
		}
		for _, s := range has {
			if !slices.Contains(had, s) {
				d.note(is, [2]bool{false, true}, s)
			}
		}
		return
	}
	for side, b := range []*binding{was, is} {
		if b != nil {
			for _, s := range b.unique() {
				d.note(b, [2]bool{side == 0, side == 1}, s)
			}
		}
	}
}

func (d *Difference) note(b *binding, sides [2]bool, s Subject) {
	key := strandKey{b.scope(d.before.master), b.role, sides}
	strand := d.strands[key]
	if strand == nil {
		r := d.role(b.role)
		strand = &Strand{scope: key.scope, subjects: map[Subject]bool{}}
		for side, counts := range sides {
			if counts {
				strand.sides[side] = r.sides[side]
			}
		}
		if sides == [2]bool{true, true} {
			strand.common = r.common
		}
		if strand.sides == [2]*role{} {
			return // no such role
		}
		d.strands[key] = strand
	}
	strand.subjects[s] = true
}

// role compares a role by what it was compiled from, and by what its names of kinds mean.
func (d *Difference) role(ref RoleRef) *roleDifference {
	if known := d.roles[ref]; known != nil {
		return known
	}
	r := &roleDifference{sides: [2]*role{d.before.role(ref), d.after.role(ref)}}
	d.roles[ref] = r
	a, b := r.sides[0], r.sides[1]
	switch {
	case a == b:
		r.same = true
	case a == nil || b == nil || d.renamed(a) || !sameError(a.over, b.over) || len(a.problems) != len(b.problems):
	case sameRules(a, &roleSource{policy: b.Policy, rbac: b.RBAC, over: b.over}):
		r.same = true
	default:
		r.common = [2][]bool{make([]bool, len(a.Rules)), make([]bool, len(b.Rules))}
		for i := range a.Rules {
			for j := range b.Rules {
				if !r.common[1][j] && a.sameRule(i, b, j) {
					r.common[0][i], r.common[1][j] = true, true
					break
				}
			}
		}
	}
	return r
}

// sameRule tells that two rules were compiled from the same, and that both take effect or neither does.
func (r *role) sameRule(i int, o *role, j int) bool {
	if (r.Rules[i] == nil) != (o.Rules[j] == nil) {
		return false
	}
	if i < len(r.Policy) && j < len(o.Policy) {
		return reflect.DeepEqual(r.Policy[i], o.Policy[j])
	}
	return i < len(r.RBAC) && j < len(o.RBAC) && reflect.DeepEqual(r.RBAC[i], o.RBAC[j])
}

// Subjects visits those whom the strand is about, in no order.
func (s *Strand) Subjects(visit func(Subject)) {
	for subject := range s.subjects {
		visit(subject)
	}
}

// Namespace is where the strand matters; everywhere tells that it does in all of them and outside of them.
func (s *Strand) Namespace() (name string, everywhere bool) {
	return s.scope.ns, s.scope.kind == ScopeMaster || s.scope.kind == ScopeCluster
}

// Reaches tells whether a rule of the strand that only one side has is about a request, whoever makes it, wherever, and
// whatever the object is called.
func (d *Difference) Reaches(s *Strand, a authorizer.AttributesRecord) bool {
	for side, ix := range []*Index{d.before, d.after} {
		r := s.sides[side]
		if r == nil {
			continue
		}
		for i, ru := range r.Rules {
			if ru == nil || s.common[side] != nil && s.common[side][i] {
				continue
			}
			if a.Name = ""; len(ru.Names) > 0 {
				a.Name = ru.Names[0]
			}
			var q Query
			if q.setRequest(ix, a); q.fits(r, i) {
				return true
			}
		}
	}
	return false
}
