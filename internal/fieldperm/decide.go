package fieldperm

import (
	"fmt"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Decide says whether a write may change what it changes. Checks go field by field in the order of the object, and for each
// field from the most general permission to the most specific; what is covered is not asked about again, and the first
// field that is not covered ends it (FP-8).
func (t *Table) Decide(req Request) Result {
	tree := t.tree(req.Target)
	if req.Mode == General && !tree.exclusive {
		return Result{allowed: true}
	}
	if req.Objects == nil {
		return Result{Err: fmt.Errorf("request has no objects to compare")}
	}
	old, new, err := req.Objects()
	if err != nil {
		return Result{Err: err}
	}
	if new == nil {
		return Result{Err: fmt.Errorf("request has no object")}
	}
	d := decision{req: req, tree: tree, new: new, plan: plan{check: req.Check}}
	result := d.run(old)
	result.Checks = d.plan.checks
	return result
}

// decision is one run of Decide.
type decision struct {
	req  Request
	tree *node
	new  *typed.TypedValue
	plan plan
	// turns are the keys of all classes with a changed field.
	turns map[string]bool
}

func (d *decision) run(old *typed.TypedValue) Result {
	changed, err := d.diff(old, old == nil && d.req.Default != nil)
	if err != nil {
		return Result{Err: err}
	}
	d.turns = make(map[string]bool, len(changed))
	for _, c := range changed {
		d.turns[c.key()] = true
	}
	var pending []*class
	for _, c := range changed {
		n := d.plan.unmet(c)
		switch {
		case n == nil:
			continue
		case d.plan.tooMany:
			return Result{TooMany: true}
		case old != nil || d.req.Default == nil:
			return Result{Missing: n.missing(c.first)}
		}
		// On create the field does not count if it is what defaulting gives. Finding that out at once keeps the promise to stop at
		// the first field that is not covered.
		if beyond := d.beyondDefaults(c); beyond != nil {
			return *beyond
		}
		pending = append(pending, c)
	}
	// Each class was looked at with all the others in place. Two that default from one another would vouch for each other, so
	// that finally all are taken away together.
	if len(pending) > 1 {
		if beyond := d.beyondDefaults(pending...); beyond != nil {
			return *beyond
		}
	}
	return Result{allowed: true}
}

// ChangedFields lists the fields that differ between two objects, in order and without those that never count (FP-7). old is
// nil for a new object, of which every field that is set counts.
func ChangedFields(old, new *typed.TypedValue) ([]Path, error) {
	w := walker{create: old == nil, keepPaths: true}
	if err := w.run(&node{}, old, new, nil); err != nil {
		return nil, err
	}
	slices.SortFunc(w.paths, Path.compare)
	return w.paths, nil
}

// diff returns the classes of changed fields in the order of their first field.
func (d *decision) diff(old *typed.TypedValue, keepLeaves bool) ([]*class, error) {
	w := walker{general: d.req.Mode == General, create: old == nil, keepLeaves: keepLeaves, standIn: standInType(d.req.Target)}
	if err := w.run(d.tree, old, d.new, d.req.Reset); err != nil {
		return nil, err
	}
	slices.SortFunc(w.changed, func(a, b *class) int { return a.first.compare(b.first) })
	return w.changed, nil
}
