package ruleset

import (
	"cmp"
	"slices"
)

// table holds the rules of one effect by what a request asks for.
type table struct {
	cells []cell  // with a resource, by hash of the resource
	wild  []cell  // with any resource
	urls  []*rule // with non-resource paths
}

func (t *table) empty() bool { return len(t.cells) == 0 && len(t.wild) == 0 && len(t.urls) == 0 }

// linearMax is up to how many cells are compared one by one.
const linearMax = 8

// at returns the cells among which those with the hash are. The caller compares hash and name.
func (t *table) at(hash uint64) []cell {
	if len(t.cells) <= linearMax {
		return t.cells
	}
	lo, hi := 0, len(t.cells)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); t.cells[mid].hash < hash {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for hi < len(t.cells) && t.cells[hi].hash == hash {
		hi++
	}
	return t.cells[lo:hi]
}

// match returns the first rule that applies without a condition, and whether any applies under one. It stops at the
// first, so that conditional is complete only if no rule is returned.
func (t *table) match(q *request) (r *rule, conditional bool) {
	if !q.resourceRequest {
		for _, r := range t.urls {
			switch r.checkURL(q) {
			case applies:
				return r, conditional
			case appliesIf:
				conditional = true
			}
		}
		return nil, conditional
	}
	cells := t.at(q.resHash)
	if q.wild {
		cells = t.cells
	}
	for i := range cells {
		c := &cells[i]
		if (c.hash != q.resHash || c.res != q.resource) && (!q.wild || c.rule.rbac) {
			continue
		}
		switch c.check(q) {
		case applies:
			return c.rule, conditional
		case appliesIf, appliesIfName:
			conditional = true
		}
	}
	for i := range t.wild {
		switch t.wild[i].check(q) {
		case applies:
			return t.wild[i].rule, conditional
		case appliesIf, appliesIfName:
			conditional = true
		}
	}
	return nil, conditional
}

// direct visits every rule that applies, each once although several of its cells can match.
func (t *table) direct(q *request, visit func(*rule, fit)) {
	if !q.resourceRequest {
		for _, r := range t.urls {
			if v := r.checkURL(q); v != misses {
				visit(r, v)
			}
		}
		return
	}
	var seen []*rule
	try := func(c *cell) {
		if v := c.check(q); v != misses && !slices.Contains(seen, c.rule) {
			seen = append(seen, c.rule)
			visit(c.rule, v)
		}
	}
	cells := t.at(q.resHash)
	if q.wild {
		cells = t.cells
	}
	for i := range cells {
		if c := &cells[i]; c.hash == q.resHash && c.res == q.resource || q.wild && !c.rule.rbac {
			try(c)
		}
	}
	for i := range t.wild {
		try(&t.wild[i])
	}
}

func (t *table) sort() {
	slices.SortStableFunc(t.cells, func(a, b cell) int { return cmp.Compare(a.hash, b.hash) })
}
