package twoworlds

// openFind is a find that is known and not closed yet. The search passes over it; kept cases show it.
type openFind struct {
	name, cause string
	is          func(c *Case, s Step, a, b *reply) bool
}

// open lists them. Whoever closes one removes its entry here, and the mark in its kept cases.
var open = []openFind{}

// known names the entry of a find.
func known(c *Case, s Step, a, b *reply) string {
	for _, o := range open {
		if o.is(c, s, a, b) {
			return o.name
		}
	}
	return ""
}
