package fieldperm

import (
	"fmt"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// beyondDefaults removes the fields of some classes from a new object and applies defaulting. If the fields asked about
// come out unchanged, the caller has set nothing beyond their rights, and it returns nil; otherwise it returns the
// refusal. The fields are removed together and not one by one, because a default may depend on other fields that the
// caller did not set either. The first class is not covered.
func (d *inspection) beyondDefaults(about func(*class) bool, classes ...*class) *Result {
	first := classes[0]
	failed := func() *Result {
		return &Result{Missing: d.plan.unmet(first).missing(first.first)}
	}
	object, ok := d.new.AsValue().Unstructured().(map[string]interface{})
	if !ok {
		return failed()
	}
	places := &cut{}
	for _, c := range classes {
		for _, l := range c.leaves {
			places.add(l)
		}
	}
	without, _ := places.apply(object).(map[string]interface{})
	if without == nil {
		without = map[string]interface{}{}
	}
	defaulted, err := d.req.Default(without)
	if err != nil || defaulted == nil {
		return failed()
	}
	base := typed.AsTypedUnvalidated(value.NewValueInterface(defaulted), d.new.Schema(), d.new.TypeRef())
	w := walker{ctx: d.req.Context, general: d.req.Mode == General, create: true, standIn: standInType(d.req.Target)}
	if err := w.run(d.tree, base, d.new, d.req.Reset); err != nil {
		return &Result{Err: fmt.Errorf("comparing with defaults: %w", err)}
	}
	slices.SortFunc(w.changed, func(a, b *class) int { return a.first.compare(b.first) })
	for _, c := range w.changed {
		if !about(c) {
			continue
		}
		if n := d.plan.unmet(c); n != nil {
			if d.plan.tooMany {
				return &Result{TooMany: true}
			}
			return &Result{Missing: n.missing(c.first)}
		}
	}
	return nil
}

// only asks about the fields of one class, all about every field.
func only(c *class) func(*class) bool {
	key := c.key()
	return func(other *class) bool { return other.key() == key }
}

func all(*class) bool { return true }

// cut is a set of places to remove from a decoded object.
type cut struct {
	whole  bool
	fields map[string]*cut
	items  map[int]*cut
}

func (c *cut) add(l leaf) {
	for _, step := range l {
		if step.item {
			if c.items == nil {
				c.items = map[int]*cut{}
			}
			if c.items[step.index] == nil {
				c.items[step.index] = &cut{}
			}
			c = c.items[step.index]
			continue
		}
		if c.fields == nil {
			c.fields = map[string]*cut{}
		}
		if c.fields[step.name] == nil {
			c.fields[step.name] = &cut{}
		}
		c = c.fields[step.name]
	}
	c.whole = true
}

// gone marks what was removed.
type gone struct{}

// apply returns a copy without the places. A parent that becomes empty is removed, too: with nothing set in it, it is
// as if it had not been sent.
func (c *cut) apply(v any) any {
	if c != nil && c.whole {
		return gone{}
	}
	switch v := v.(type) {
	case map[string]interface{}:
		out := make(map[string]interface{}, len(v))
		for key, item := range v {
			var below *cut
			if c != nil {
				below = c.fields[key]
			}
			if kept := below.apply(item); kept != (gone{}) {
				out[key] = kept
			}
		}
		if len(out) == 0 && len(v) > 0 {
			return gone{}
		}
		return out
	case []interface{}:
		out := make([]interface{}, 0, len(v))
		for i, item := range v {
			var below *cut
			if c != nil {
				below = c.items[i]
			}
			if kept := below.apply(item); kept != (gone{}) {
				out = append(out, kept)
			}
		}
		if len(out) == 0 && len(v) > 0 {
			return gone{}
		}
		return out
	}
	return v
}
