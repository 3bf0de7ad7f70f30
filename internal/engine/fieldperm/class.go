package fieldperm

import (
	"slices"
	"strings"
)

// class is a set of changed fields that need the same permissions. A request has few of them, however many fields it
// changes.
type class struct {
	// needs must all be met; each has alternatives.
	needs []need
	// exclusive is set if the general verb does not cover the fields.
	exclusive bool
	// blind is set if the place of a changed field is not known, so the field cannot be compared with its default.
	blind bool
	// first is the first changed field of the class, for messages.
	first Path
	// leaves are all changed fields of the class, kept on create only.
	leaves []leaf
}

// need is met by any one of its alternatives.
type need struct {
	// alternatives from the most general permission to the most specific.
	alternatives []alternative
	// note says why there are none although a permission exists.
	note string
}

// alternative is met by holding all of its verbs: a permission with a parameter taken from a value that changed takes
// both the old and the new one.
type alternative struct{ verbs []string }

func (a alternative) String() string { return strings.Join(a.verbs, " and ") }

// key identifies the class.
func (c *class) key() string {
	var b strings.Builder
	if c.exclusive {
		b.WriteByte('!')
	}
	for _, n := range c.needs {
		b.WriteByte(0)
		b.WriteString(n.note)
		for _, a := range n.alternatives {
			b.WriteByte(1)
			for _, v := range a.verbs {
				b.WriteByte(2)
				b.WriteString(v)
			}
		}
	}
	return b.String()
}

// classAt returns the class of what changes at frame i: what its ancestors offer and what ends here.
func (w *walker) classAt(i int) *class {
	if known := w.frames[i].class; known != nil {
		return known
	}
	above := w.uncovered
	if i > 0 {
		above = w.classAt(i - 1)
	}
	made := above
	if perms := w.permsAt(i); len(perms) > 0 {
		made = w.intern(w.extend(above, i, perms))
	}
	if orders := w.ordersAt(i); len(orders) > 0 {
		made = w.intern(&class{exclusive: made.exclusive, needs: slices.Concat(made.needs, orders)})
	}
	w.frames[i].class = made
	return made
}

// permsAt gathers the permissions that end at frame i.
func (w *walker) permsAt(i int) []*permission {
	f := &w.frames[i]
	var all []*permission
	for _, n := range w.states[f.from:f.to] {
		if all == nil {
			all = n.perms
			continue
		}
		all = append(slices.Clone(all), n.perms...)
		slices.SortStableFunc(all, moreGeneral)
	}
	return all
}

// extend adds the permissions of a frame to those above it. An exclusive one replaces all others: an ancestor's
// permission never covers it, and nothing else covers what lies below it.
func (w *walker) extend(above *class, i int, perms []*permission) *class {
	var exclusive, plain []*permission
	for _, p := range perms {
		switch {
		case !p.Exclusive || !w.excludes(p, i):
			if !p.onlyGuards {
				plain = append(plain, p)
			}
		case len(exclusive) == 0 || p.literals() == exclusive[0].literals():
			exclusive = append(exclusive, p)
		case p.literals() > exclusive[0].literals():
			exclusive = []*permission{p} // a named entry is more specific than every entry
		}
	}
	if len(exclusive) > 0 {
		c := &class{exclusive: true}
		for _, p := range exclusive {
			c.needs = append(c.needs, w.own(p, i))
		}
		return c
	}
	if above.exclusive {
		return above
	}
	c := &class{needs: []need{{alternatives: slices.Clone(above.needs[0].alternatives)}}}
	for _, p := range plain {
		if a, _ := w.alternative(p, i); len(a.verbs) > 0 {
			c.needs[0].alternatives = append(c.needs[0].alternatives, a)
		}
	}
	return c
}

// own is the need for an exclusive field's own permission.
func (w *walker) own(p *permission, i int) need {
	a, note := w.alternative(p, i)
	if len(a.verbs) == 0 {
		return need{note: "needs " + VerbPrefix + p.Permission + ", which cannot be given: " + note}
	}
	return need{alternatives: []alternative{a}}
}

// intern returns the one class of its key.
func (w *walker) intern(c *class) *class {
	if c == w.uncovered {
		return c
	}
	key := c.key()
	if known := w.classes[key]; known != nil {
		return known
	}
	w.classes[key] = c
	return c
}
