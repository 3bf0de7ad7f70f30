package matching

import (
	"cmp"
	"slices"
)

// Table holds the rules of one effect, keyed by what a request asks for.
type Table struct {
	Cells []Cell  // with a resource, by hash of the resource
	Wild  []Cell  // with any resource
	URLs  []*Rule // with non-resource paths
}

func (t *Table) Empty() bool { return len(t.Cells) == 0 && len(t.Wild) == 0 && len(t.URLs) == 0 }

// LinearMax is the number of cells up to which they are compared one by one.
const LinearMax = 8

// at returns a range that contains the cells with the hash. The caller compares hash and name.
func (t *Table) at(hash uint64) []Cell {
	if len(t.Cells) <= LinearMax {
		return t.Cells
	}
	lo, hi := 0, len(t.Cells)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); t.Cells[mid].Hash < hash {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for hi < len(t.Cells) && t.Cells[hi].Hash == hash {
		hi++
	}
	return t.Cells[lo:hi]
}

// Match returns the first rule that applies without a condition, and whether any applies under one. It stops at the
// first, so conditional is complete only if no rule is returned.
func (t *Table) Match(q *Request) (r *Rule, conditional bool) {
	if !q.ResourceRequest {
		for _, r := range t.URLs {
			switch r.CheckURL(q) {
			case Applies:
				return r, conditional
			case appliesIf:
				conditional = true
			}
		}
		return nil, conditional
	}
	cells := t.at(q.resHash)
	if q.Wild {
		cells = t.Cells
	}
	for i := range cells {
		c := &cells[i]
		if (c.Hash != q.resHash || c.Res != q.Resource) && (!q.Wild || c.Rule.RBAC) {
			continue
		}
		switch c.Check(q) {
		case Applies:
			return c.Rule, conditional
		case appliesIf, AppliesIfName:
			conditional = true
		}
	}
	for i := range t.Wild {
		if t.Wild[i].elsewhere(q) {
			continue
		}
		switch t.Wild[i].Check(q) {
		case Applies:
			return t.Wild[i].Rule, conditional
		case appliesIf, AppliesIfName:
			conditional = true
		}
	}
	return nil, conditional
}

// direct visits every rule that applies, each once although several of its cells can match.
func (t *Table) direct(q *Request, visit func(*Rule, Fit)) {
	if !q.ResourceRequest {
		for _, r := range t.URLs {
			if v := r.CheckURL(q); v != Misses {
				visit(r, v)
			}
		}
		return
	}
	var seen []*Rule
	try := func(c *Cell) {
		if v := c.Check(q); v != Misses && !slices.Contains(seen, c.Rule) {
			seen = append(seen, c.Rule)
			visit(c.Rule, v)
		}
	}
	cells := t.at(q.resHash)
	if q.Wild {
		cells = t.Cells
	}
	for i := range cells {
		if c := &cells[i]; c.Hash == q.resHash && c.Res == q.Resource || q.Wild && !c.Rule.RBAC {
			try(c)
		}
	}
	for i := range t.Wild {
		if !t.Wild[i].elsewhere(q) {
			try(&t.Wild[i])
		}
	}
}

// elsewhere is true for a cell with any resource but another kind. Check would find that, too, but an escalation check
// skips thousands of these.
func (c *Cell) elsewhere(q *Request) bool { return c.Hash != 0 && c.Hash != q.kindHash && !q.Wild }

func (t *Table) Sort() {
	slices.SortStableFunc(t.Cells, func(a, b Cell) int { return cmp.Compare(a.Hash, b.Hash) })
}
