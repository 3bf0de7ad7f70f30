package fieldperm

import (
	"cmp"
	"slices"
)

// node is a place in the tree of all paths that have a permission, for one kind of object.
type node struct {
	// perms are the permissions that end here, from the most general to the most specific.
	perms []*permission
	// fields and keys are children by name, any is the child for every entry.
	fields, keys map[string]*node
	any          *node
	// exclusive is set if a permission here or below is.
	exclusive bool
	// orders are what else has to be covered where this changes.
	orders []need
}

// placed is a permission at a path, which is not always the declared one: templates, scale and binding repeat fields of
// another kind of object.
type placed struct {
	path Path
	perm *permission
}

// newTree builds a tree; the order of all does not matter.
func newTree(all []placed) *node {
	root := &node{}
	for _, p := range all {
		root.add(p.path, p.perm)
	}
	root.finish()
	return root
}

func (n *node) add(path Path, perm *permission) {
	for _, e := range path {
		n.exclusive = n.exclusive || perm.Exclusive
		n = n.ensure(e)
	}
	n.exclusive = n.exclusive || perm.Exclusive
	if !slices.Contains(n.perms, perm) {
		n.perms = append(n.perms, perm)
	}
}

func (n *node) ensure(e Element) *node {
	if e.Any {
		if n.any == nil {
			n.any = &node{}
		}
		return n.any
	}
	m := &n.fields
	if e.Bracket {
		m = &n.keys
	}
	if *m == nil {
		*m = map[string]*node{}
	}
	child := (*m)[e.Name]
	if child == nil {
		child = &node{}
		(*m)[e.Name] = child
	}
	return child
}

// finish sorts the permissions of each place.
func (n *node) finish() {
	slices.SortStableFunc(n.perms, moreGeneral)
	for _, child := range n.children() {
		child.finish()
	}
}

// moreGeneral orders the permissions that end at one place.
func moreGeneral(a, b *permission) int {
	return cmp.Or(
		cmp.Compare(len(a.Field), len(b.Field)),
		cmp.Compare(a.literals(), b.literals()),
		cmp.Compare(boolInt(a.Parameter != nil), boolInt(b.Parameter != nil)),
		cmp.Compare(a.Permission, b.Permission),
		cmp.Compare(a.Source, b.Source),
	)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (n *node) children() []*node {
	var all []*node
	for _, child := range n.fields {
		all = append(all, child)
	}
	for _, child := range n.keys {
		all = append(all, child)
	}
	if n.any != nil {
		all = append(all, n.any)
	}
	return all
}

func (n *node) leadsOn() bool { return n.fields != nil || n.keys != nil || n.any != nil }
