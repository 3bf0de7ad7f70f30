package fieldperm

import (
	"fmt"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Decide decides whether a write may change what it changes. Checks go field by field in the order of the object, and
// for each field from the most general permission to the most specific; a covered field is not asked about again, and
// the first uncovered field ends the decision (FP-8).
func (t *Table) Decide(req Request) Result {
	tree := t.tree(req.Target)
	if req.Mode == General && !tree.exclusive {
		return Result{allowed: true}
	}
	if req.Hidden {
		return hidden(req, tree)
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
	d := inspection{req: req, tree: tree, new: new, plan: plan{check: req.Check}}
	result := d.run(old)
	result.Checks = d.plan.checks
	return result
}

// hidden needs the permission of every exclusive field, since any of them may be written.
func hidden(req Request, tree *node) Result {
	if req.Mode == Granular {
		return Result{Err: fmt.Errorf("what the request writes cannot be told")}
	}
	p := plan{check: req.Check}
	for _, q := range tree.exclusives(nil) {
		v, known := q.knownVerb()
		if known && !q.perm.broken && p.holds(v) {
			continue
		}
		return Result{Checks: p.checks, TooMany: p.tooMany, Missing: &Missing{
			Field: q.path.String(), Permission: q.perm.display(), Note: "may be written by this request, which does not show it",
		}}
	}
	return Result{allowed: true, Checks: p.checks}
}

// inspection is one run of Decide.
type inspection struct {
	req  Request
	tree *node
	new  *typed.TypedValue
	plan plan
}

func (d *inspection) run(old *typed.TypedValue) Result {
	changed, err := d.diff(old, old == nil && d.req.Default != nil)
	if err != nil {
		return Result{Err: err}
	}
	var pending []*class
	for i, c := range changed {
		n := d.plan.unmet(c)
		switch {
		case n == nil:
			continue
		case d.plan.tooMany:
			return Result{TooMany: true}
		case old != nil || d.req.Default == nil || c.blind:
			return Result{Missing: n.missing(c.first)}
		}
		// On create, fields that equal their defaults do not count. Checking that now, with and without the other
		// fields in place, keeps the promise to stop at the first field that is not covered.
		if refusal := d.beyondDefaults(only(c), c); refusal != nil {
			if d.beyondDefaults(only(c), slices.Concat([]*class{c}, pending, changed[i+1:])...) != nil {
				return *refusal
			}
		}
		pending = append(pending, c)
	}
	// What counts in the end is the object without any of the fields for which the caller lacks permission: fields that
	// default from one another must not vouch for each other.
	if len(pending) > 0 {
		if refusal := d.beyondDefaults(all, pending...); refusal != nil {
			return *refusal
		}
	}
	if old != nil {
		if refusal := d.owners(old); refusal != nil {
			return *refusal
		}
	}
	return Result{allowed: true}
}

// diff returns the classes of changed fields in the order of their first field.
func (d *inspection) diff(old *typed.TypedValue, keepLeaves bool) ([]*class, error) {
	w := walker{ctx: d.req.Context, general: d.req.Mode == General, create: old == nil, keepLeaves: keepLeaves, standIn: standInType(d.req.Target)}
	if err := w.run(d.tree, old, d.new, d.req.Reset); err != nil {
		return nil, err
	}
	if d.req.Claimed {
		w.claimScale()
	}
	slices.SortFunc(w.changed, func(a, b *class) int { return a.first.compare(b.first) })
	return w.changed, nil
}
