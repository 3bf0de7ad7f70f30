package fieldperm

import (
	"cmp"
	"slices"
)

// Guarded is a field of one version of a resource, with a permission that guards it.
type Guarded struct {
	Field Path
	// Verb is what to grant, with a placeholder for its parameter.
	Verb string
	// Everywhere is set if the permission is for all resources.
	Everywhere bool
	// Exclusive is set if the general verb does not cover the field, Sometimes if only for some values.
	Exclusive, Sometimes bool
}

// In lists the permissions that guard fields of one version of a resource, in the order of the fields, from the most
// general to the most specific. A permission that does not compile cannot be granted, and is left out.
func (t *Table) In(r Resource, version string) []Guarded {
	all := slices.DeleteFunc(t.place(treeKey{resource: r, version: version}), func(p placed) bool { return p.perm.broken })
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(a.path.compare(b.path), moreGeneral(a.perm, b.perm), cmp.Compare(a.perm.display(), b.perm.display()))
	})
	guarded := make([]Guarded, 0, len(all))
	for _, p := range all {
		g := Guarded{
			Field: p.path, Verb: p.perm.display(), Exclusive: p.perm.Exclusive, Sometimes: p.perm.Exclusive && p.perm.ExclusiveWhen != "",
			Everywhere: slices.ContainsFunc(p.perm.Resources, Resource.All),
		}
		if last := len(guarded) - 1; last < 0 || !guarded[last].same(g) {
			guarded = append(guarded, g)
		}
	}
	return guarded
}

func (g Guarded) same(h Guarded) bool {
	return g.Verb == h.Verb && g.Everywhere == h.Everywhere && g.Exclusive == h.Exclusive && g.Sometimes == h.Sometimes && g.Field.compare(h.Field) == 0
}
