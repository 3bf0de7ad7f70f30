package twoworlds

// openFind is a find that is known and not closed yet. The search passes over it; kept cases show it.
type openFind struct {
	name, cause string
	is          func(f openStep) bool
}

// openStep is a step whose answers differ.
type openStep struct {
	Step
	ref    Ref
	before []Step
	// changed is what the worlds differ in; how says in what.
	changed Object
	how     string
	a, b    *reply
}

// open lists them. The change that closes one removes its entry here, and the mark in its kept cases.
var open = []openFind{}

// known names the entry of a find.
func known(c *Case, step int, a, b *reply) string {
	s := c.Steps[step]
	f := openStep{Step: s, before: c.Steps[:step], how: c.Change.What, a: a, b: b}
	f.ref, _, _ = refOf(s.Path)
	if o := c.object(c.Change.Ref); o != nil && f.ref.Kind == o.Kind {
		f.changed = *o
	} else if !s.Watch {
		return ""
	}
	for _, entry := range open {
		if entry.is(f) {
			return entry.name
		}
	}
	return ""
}
