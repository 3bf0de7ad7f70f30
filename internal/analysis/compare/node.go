package compare

import (
	"slices"
	"strconv"
	"strings"
)

// absent is the state of a path at which there is nothing.
type absentValue struct{}

var absent = absentValue{}

// node is a path that atoms read: a variable, a field, a key, or the elements of a list.
type node struct {
	name   string
	parent *node // nil for a variable
	kids   []*node
	shape  *Shape // nil: never there

	// What atoms do with the value.
	whole    bool // they look at the value itself
	constant []any
	prefixes []string
	suffixes []string
	parts    []string
	sizes    []int64
	ordered  bool
	splits   []split
	members  []any // constants that are looked for in it
	element  *node // what loops see; nil if there are none
	loops    []*atom
	equals   []*node // that it is compared with
	sampled  bool    // by atoms for which it is not known which values they distinguish

	way     []*node // see chain; nil until all paths are known
	index   int     // among the nodes that are chosen
	states  []any   // the values that tell all atoms apart; absent, null, values. A structural node has open instead of the map
	partial bool    // the states are samples
}

// split is text.split(by)[at].
type split struct {
	by string
	at int
}

// inside is the state of a structural node that is an object: its fields are nodes themselves.
type insideValue struct{}

var inside = insideValue{}

func (n *node) path() string {
	if n.parent == nil {
		return n.name
	}
	return n.parent.path() + "." + n.name
}

// structural nodes are only passed through: their fields are chosen one by one.
func (n *node) structural() bool { return len(n.kids) > 0 && !n.compound() }

// compound nodes are looked at as a whole and have fields that are looked at too.
func (n *node) compound() bool {
	return n.whole || n.element != nil || len(n.sizes) > 0 || len(n.equals) > 0 || len(n.loops) > 0
}

// within is the innermost compound node that has n inside, or n.
func (n *node) within() *node {
	found := n
	for up := n.parent; up != nil; up = up.parent {
		if up.compound() {
			found = up
		}
	}
	return found
}

func (n *node) sub(name string) *node {
	for _, kid := range n.kids {
		if kid.name == name {
			return kid
		}
	}
	var shape *Shape
	if n.shape != nil {
		shape = n.shape.Sub(name)
	}
	kid := &node{name: name, parent: n, shape: shape}
	n.kids = append(n.kids, kid)
	return kid
}

// elements is the node of what a loop over n sees: the elements of a list, the keys of a map.
func (n *node) elements() *node {
	if n.element == nil {
		shape := &Shape{Null: true, Always: true}
		switch {
		case n.shape == nil:
		case n.shape.Type == Map || n.shape.Type == Object:
			shape = &Shape{Type: String, Always: true}
		case n.shape.Type == List:
			elem := *n.shape.Elem
			elem.Always, elem.Full = true, false
			shape = &elem
		}
		n.element = &node{name: "[]", shape: shape, parent: nil}
	}
	return n.element
}

func (n *node) compared(values ...any) {
	n.whole = true
	for _, v := range values {
		if !slices.ContainsFunc(n.constant, func(c any) bool { return same(c, v) }) {
			n.constant = append(n.constant, v)
		}
	}
}

// mirror gives paths that are compared with each other the same fields and elements, so a value built for one can also
// be built for the other. Comparing objects looks at everything in them.
func (n *node) mirror() {
	for i := 0; i < len(n.equals); i++ {
		other := n.equals[i]
		if n.shape == nil || other.shape == nil || other.shape.Type != n.shape.Type {
			continue
		}
		for _, kid := range n.kids {
			kid.link(other.sub(kid.name))
		}
		if n.element != nil {
			n.element.link(other.elements())
		}
		for _, m := range n.members {
			if !slices.ContainsFunc(other.members, func(o any) bool { return same(o, m) }) {
				other.members = append(other.members, m)
			}
		}
	}
	for _, kid := range n.kids {
		kid.mirror()
	}
	if n.element != nil {
		n.element.mirror()
	}
}

// link notes that two paths are compared.
func (n *node) link(other *node) {
	if n != other && !slices.Contains(n.equals, other) {
		n.equals = append(n.equals, other)
		other.equals = append(other.equals, n)
	}
}

// count is the number of nodes and links below n: mirror is done when it does not change any more.
func (n *node) count() int {
	total := 1 + len(n.equals) + len(n.members)
	for _, kid := range n.kids {
		total += kid.count()
	}
	if n.element != nil {
		total += n.element.count()
	}
	return total
}

// askers is the number of loops over a path and those that it is compared with.
func (n *node) askers() (loops int) {
	seen := map[*node]bool{}
	var visit func(*node)
	visit = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		loops += len(n.loops)
		for _, other := range n.equals {
			visit(other)
		}
	}
	visit(n)
	return loops
}

// chain is the nodes from the variable to n, as far as they are chosen by themselves.
func (n *node) chain() []*node {
	if n.way != nil {
		return n.way
	}
	n = n.within()
	var up []*node
	for ; n != nil; n = n.parent {
		up = append(up, n)
	}
	slices.Reverse(up)
	return up
}

// same compares JSON values.
func same(a, b any) bool { return key(a) == key(b) && key(a) != "" }

// key identifies a value.
func key(v any) string {
	var b strings.Builder
	writeKey(&b, v)
	return b.String()
}

func writeKey(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case absentValue:
		b.WriteString("absent")
	case insideValue:
		b.WriteString("inside")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case string:
		b.WriteString(strconv.Quote(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
		b.WriteByte('d')
	case []any:
		b.WriteByte('[')
		for _, e := range v {
			writeKey(b, e)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b.WriteByte('{')
		for _, name := range names {
			b.WriteString(strconv.Quote(name))
			writeKey(b, v[name])
			b.WriteByte(',')
		}
		b.WriteByte('}')
	}
}
