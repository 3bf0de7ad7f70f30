package ruleset

import (
	"reflect"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Difference is how two indexes differ: in roles and in bindings. For a subject that is not in it, every question has
// the same answer in both.
type Difference struct {
	before, after *Index
	strands       map[strandKey]*Strand
	roles         map[RoleRef]*roleDifference
	renamed       func(*role) bool
}

// Strand is a role in a scope that some subjects have in only one index, or whose rules differ.
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

// roleDifference says how a role differs.
type roleDifference struct {
	sides  [2]*role
	same   bool
	common [2][]bool
}

// Diff compares any two indexes. If one was derived from the other by a few changes, it takes time in the number of
// roles; otherwise, in the number of bindings.
func Diff(before, after *Index) *Difference {
	d := &Difference{before: before, after: after, strands: map[strandKey]*Strand{}, roles: map[RoleRef]*roleDifference{}, renamed: func(*role) bool { return false }}
	if before.kinds != after.kinds {
		names, all := before.kinds.Changed(after.kinds)
		d.renamed = func(r *role) bool {
			return all && len(r.names) > 0 || slices.ContainsFunc(r.names, func(name string) bool { return names[name] })
		}
	}
	for _, ix := range []*Index{before, after} {
		ix.ids.Each(func(ref RoleRef, _ uint32) bool {
			d.role(ref)
			return true
		})
	}
	before.bindings.EachApart(&after.bindings, func(b *binding) {
		now, _ := after.bindings.Get(after.hashBinding(b.ref), b.ref)
		d.binding(b, now)
	})
	after.bindings.EachApart(&before.bindings, func(b *binding) {
		if _, known := before.bindings.Get(before.hashBinding(b.ref), b.ref); !known {
			d.binding(nil, b)
		}
	})
	for ref, r := range d.roles {
		if !r.same {
			d.members(ref)
		}
	}
	return d
}

// Within reports whether everything that differs also differs in another comparison, for the same subjects.
func (d *Difference) Within(o *Difference) bool {
	for key, s := range d.strands {
		other := o.strands[key]
		if other == nil {
			return false
		}
		for subject := range s.subjects {
			if !other.subjects[subject] {
				return false
			}
		}
	}
	return true
}

// Strands returns what differs, in no order.
func (d *Difference) Strands() (all []*Strand) {
	for _, s := range d.strands {
		all = append(all, s)
	}
	return all
}

// binding records the subjects that have a role by a binding on only one side; nil for the other side.
func (d *Difference) binding(was, is *binding) {
	if was == is {
		return
	}
	var had, has []Subject
	if was != nil {
		had = was.unique()
	}
	if is != nil {
		has = is.unique()
	}
	same := was != nil && is != nil && *was.named == *is.named
	for _, s := range had {
		if !same || !slices.Contains(has, s) {
			d.note(was, [2]bool{true, false}, s)
		}
	}
	for _, s := range has {
		if !same || !slices.Contains(had, s) {
			d.note(is, [2]bool{false, true}, s)
		}
	}
}

// members records the subjects of a role that differs but exists on both sides.
func (d *Difference) members(ref RoleRef) {
	d.before.boundTo(ref, func(_ scope, b *binding) {
		now, still := d.after.bindings.Get(d.after.hashBinding(b.ref), b.ref)
		if !still || *now.named != *b.named {
			return // binding has noted it
		}
		has := now.unique()
		for _, s := range b.unique() {
			if slices.Contains(has, s) {
				d.note(b, [2]bool{true, true}, s)
			}
		}
	})
}

func (d *Difference) note(b *binding, sides [2]bool, s Subject) {
	key := strandKey{b.scope(d.before.master), *b.named, sides}
	strand := d.strands[key]
	if strand == nil {
		r := d.role(*b.named)
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

// sameRule reports whether two rules were compiled from the same source, and both or neither take effect.
func (r *role) sameRule(i int, o *role, j int) bool {
	if (r.Rules[i] == nil) != (o.Rules[j] == nil) {
		return false
	}
	if i < len(r.Policy) && j < len(o.Policy) {
		return reflect.DeepEqual(r.Policy[i], o.Policy[j])
	}
	return i < len(r.RBAC) && j < len(o.RBAC) && reflect.DeepEqual(r.RBAC[i], o.RBAC[j])
}

// Subjects visits the subjects of the strand, in no order.
func (s *Strand) Subjects(visit func(Subject)) {
	for subject := range s.subjects {
		visit(subject)
	}
}

// Namespace returns where the strand matters; everywhere is true if it does in all namespaces and outside them.
func (s *Strand) Namespace() (name string, everywhere bool) {
	return s.scope.ns, s.scope.kind == ScopeMaster || s.scope.kind == ScopeCluster
}

// Reaches reports whether a rule that only one side of the strand has applies to a request, by any caller, in any
// namespace, for any name.
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
