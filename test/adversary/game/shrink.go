package game

import "slices"

// Shrink makes a case as short as it can be while it still shows the same. shows runs a case; tries bounds how often.
func Shrink(c *Case, tries int, shows func(*Case) bool) *Case {
	best := c.Clone()
	try := func(next *Case) bool {
		if tries == 0 {
			return false
		}
		tries--
		if shows(next) {
			best = next
			return true
		}
		return false
	}
	for again := true; again; {
		again = cut(try, func(c *Case) *[]Step { return &c.Steps }, func() *Case { return best })
		again = cut(try, func(c *Case) *[]Grant { return &c.Grants }, func() *Case { return best }) || again
		again = cut(try, func(c *Case) *[]Prey { return &c.Prey }, func() *Case { return best }) || again
		again = cut(try, func(c *Case) *[]Field { return &c.Fields }, func() *Case { return best }) || again
		again = cut(try, func(c *Case) *[]Protected { return &c.Protected }, func() *Case { return best }) || again
		again = cut(try, func(c *Case) *[]Access { return &c.Access }, func() *Case { return best }) || again
		again = simplify(try, func() *Case { return best }) || again
	}
	idle := best.Clone()
	idle.Actors = slices.DeleteFunc(idle.Actors, func(a Actor) bool {
		return !slices.ContainsFunc(idle.Steps, func(s Step) bool { return s.Actor == a.Name })
	})
	if len(idle.Actors) < len(best.Actors) {
		try(idle)
	}
	return best
}

// cut leaves out parts of a list, halves first and single entries last.
func cut[T any](try func(*Case) bool, list func(*Case) *[]T, best func() *Case) (shorter bool) {
	for size := (len(*list(best())) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(*list(best())); {
			next := best().Clone()
			l := list(next)
			*l = slices.Delete(*l, at, min(at+size, len(*l)))
			if try(next) {
				shorter = true
			} else {
				at += size
			}
		}
	}
	return shorter
}

// simplify makes single steps and objects plainer.
func simplify(try func(*Case) bool, best func() *Case) (simpler bool) {
	attempt := func(change func(*Case) bool) {
		next := best().Clone()
		if change(next) && try(next) {
			simpler = true
		}
	}
	for i := range best().Steps {
		attempt(func(c *Case) bool { s := &c.Steps[i]; ok := s.With; s.With = false; return ok })
		attempt(func(c *Case) bool { s := &c.Steps[i]; ok := s.Query != ""; s.Query = ""; return ok })
		attempt(func(c *Case) bool { s := &c.Steps[i]; ok := s.As != ""; s.As = ""; return ok })
		attempt(func(c *Case) bool {
			s := &c.Steps[i]
			if len(s.Edits) < 2 {
				return false
			}
			s.Edits = s.Edits[:len(s.Edits)-1]
			return true
		})
	}
	for i := range best().Prey {
		attempt(func(c *Case) bool { p := &c.Prey[i]; ok := p.Labels != nil; p.Labels = nil; return ok })
		attempt(func(c *Case) bool {
			p := &c.Prey[i]
			ok := p.Owner != "" || p.Kept || p.Shared
			p.Owner, p.Kept, p.Shared = "", false, false
			return ok
		})
	}
	for i := range best().Grants {
		attempt(func(c *Case) bool { g := &c.Grants[i]; ok := g.Kept; g.Kept = false; return ok })
		for j := range best().Grants[i].Rules {
			attempt(func(c *Case) bool { r := &c.Grants[i].Rules[j]; ok := r.If != ""; r.If = ""; return ok })
			attempt(func(c *Case) bool { r := &c.Grants[i].Rules[j]; ok := r.Names != nil; r.Names = nil; return ok })
			for k := range best().Grants[i].Rules[j].Verbs {
				attempt(func(c *Case) bool {
					r := &c.Grants[i].Rules[j]
					if len(r.Verbs) < 2 || k >= len(r.Verbs) {
						return false
					}
					r.Verbs = slices.Delete(r.Verbs, k, k+1)
					return true
				})
			}
		}
	}
	for i := range best().Actors {
		attempt(func(c *Case) bool { a := &c.Actors[i]; ok := a.Groups != nil; a.Groups = nil; return ok })
		attempt(func(c *Case) bool {
			a := &c.Actors[i]
			ok := len(a.Links) > 1
			if ok {
				a.Links = a.Links[:1]
			}
			return ok
		})
	}
	return simpler
}
