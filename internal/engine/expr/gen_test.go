package expr

import (
	"fmt"
	"strconv"
	"strings"
)

// chooser drives the generators: from a seeded source in tests, from the
// input of the fuzzer in fuzz targets.
type chooser interface {
	// choose returns a number in [0, n).
	choose(n int) int
}

// bytesChooser reads choices from a byte string; when it is used up every
// choice is 0, so that generation ends.
type bytesChooser struct{ b []byte }

func (c *bytesChooser) choose(n int) int {
	if len(c.b) == 0 {
		return 0
	}
	v := int(c.b[0]) % n
	c.b = c.b[1:]
	return v
}

// randChooser is a small fast generator (splitmix64).
type randChooser uint64

func (c *randChooser) choose(n int) int {
	*c += 0x9e3779b97f4a7c15
	z := uint64(*c)
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return int((z ^ (z >> 31)) % uint64(n))
}

func pick[T any](c chooser, from ...T) T { return from[c.choose(len(from))] }

// gen makes expressions. They type-check nearly always and fail at run time
// often: fields are missing, have another type, or divide by zero.
type gen struct {
	chooser
	kind  Kind
	vars  []string // loop variables in scope
	depth int
	// maps permits loops over maps. Their order is random, and with it the
	// cost of a loop that ends early: not under a low cost limit.
	maps bool
}

func genExpr(c chooser, kind Kind, maps bool) string {
	return (&gen{chooser: c, kind: kind, maps: maps, depth: 2 + c.choose(3)}).boolean()
}

func (g *gen) deeper() func() {
	g.depth--
	return func() { g.depth++ }
}

func (g *gen) boolean() string {
	defer g.deeper()()
	if g.depth <= 0 {
		return g.atom()
	}
	switch g.choose(12) {
	case 0, 1, 2:
		return "(" + g.boolean() + " && " + g.boolean() + ")"
	case 3, 4, 5:
		return "(" + g.boolean() + " || " + g.boolean() + ")"
	case 6:
		return "!(" + g.boolean() + ")"
	case 7:
		return "(" + g.boolean() + " ? " + g.boolean() + " : " + g.boolean() + ")"
	case 8, 9:
		return g.loop()
	default:
		return g.atom()
	}
}

func (g *gen) loop() string {
	v := pick[string](g, "a", "b", "request", "object", "resource")
	rng := g.list()
	g.vars = append(g.vars, v)
	body := g.boolean()
	if g.choose(2) == 0 {
		body = v + " " + pick[string](g, "==", "!=") + " " + g.scalar()
	}
	g.vars = g.vars[:len(g.vars)-1]
	return rng + "." + pick[string](g, "all", "exists", "exists_one") + "(" + v + ", " + body + ")"
}

func (g *gen) list() string {
	switch g.choose(5) {
	case 0:
		return "request.groups"
	case 1:
		return g.object() + ".list"
	case 2:
		return "[" + g.str() + ", " + g.str() + "]"
	case 3:
		return "request.groups.map(g, g + " + g.str() + ")"
	default:
		f := pick[string](g, "list", "s", "missing", "m")
		if f == "m" && !g.maps {
			f = "list"
		}
		return g.object() + "." + f
	}
}

func (g *gen) object() string {
	dot := pick[string](g, "", "", "", ".")
	if g.kind == Where {
		return dot + "resource"
	}
	return dot + pick[string](g, "object", "object", "object", "oldObject", "options")
}

// field is something of the object.
func (g *gen) field() string {
	return g.object() + pick[string](g,
		".s", ".n", ".flag", ".m.k", ".missing", ".list[0]", `.m["k"]`, ".m[request.user]", ".m.missing.deeper",
		".?s.orValue(\"none\")", ".?missing.orValue(request.extra[\"none\"][0])", ".?s.orValue(request.extra[\"none\"][0])", ".?missing.?x.orValue(1)", ".list")
}

func (g *gen) known() string {
	return pick[string](g, "request.user", "request.verb", "request.namespace", "request.groups[0]",
		`request.extra["k"][0]`, `request.extra["none"][0]`, "request.name", `request.extra[?"k"].orValue(["z"])[0]`)
}

func (g *gen) str() string {
	if len(g.vars) > 0 && g.choose(2) == 0 {
		return g.vars[g.choose(len(g.vars))]
	}
	if g.choose(2) == 0 {
		return g.known()
	}
	return strconv.Quote(pick[string](g, "a", "b", "k", "x", ""))
}

func (g *gen) scalar() string {
	switch g.choose(4) {
	case 0:
		return g.field()
	case 1:
		return pick[string](g, "1", "0", "-1", "true", "1.5", "null", "2u")
	default:
		return g.str()
	}
}

func (g *gen) atom() string {
	switch g.choose(16) {
	case 0:
		return pick[string](g, "true", "false")
	case 1, 2:
		return g.known() + " == " + g.str()
	case 3:
		return g.str() + " in request.groups"
	case 4:
		return g.known() + "." + pick[string](g, "startsWith", "contains", "matches") + "(" +
			strconv.Quote(pick[string](g, "a", "", "b+")) + ")"
	case 5:
		return "has(" + g.object() + pick[string](g, ".s", ".m.k", ".missing.x", ".flag") + ")"
	case 6:
		return g.str() + " in " + g.list()
	case 7:
		return "dyn(" + g.field() + ")" + pick[string](g, " == true", " > 1", ".size() == 1")
	case 8:
		return "size(" + g.list() + ") " + pick[string](g, "==", ">") + " " + pick[string](g, "0", "1", "2")
	case 9:
		return "1 / " + g.object() + ".n == 1"
	case 10:
		if g.kind == Where {
			return g.object() + ".s != " + g.str()
		}
		return pick[string](g, `operation == "CREATE"`, "object == oldObject", "object == null", "oldObject != null",
			`namespaceObject.metadata.name == request.namespace`, `impersonatedRequest.verb == "get"`)
	case 11:
		return "request." + pick[string](g, "user", "verb") + " == " + g.field()
	default:
		return g.field() + " " + pick[string](g, "==", "!=") + " " + g.scalar()
	}
}

func genRequest(c chooser, verb string) *Request {
	r := &Request{
		User:      pick(c, "a", "b", "k", ""),
		Verb:      verb,
		Namespace: pick(c, "", "a", "x"),
		Name:      pick(c, "", "b"),
	}
	for range c.choose(3) {
		r.Groups = append(r.Groups, pick(c, "a", "b", "x"))
	}
	if c.choose(2) == 0 {
		r.Extra = map[string][]string{"k": {pick(c, "a", "b")}}
	}
	return r
}

// genObject makes an object; fields are missing or have any type.
func genObject(c chooser) map[string]any {
	o := map[string]any{}
	val := func() any {
		return pick[any](c, "a", "b", "k", "", int64(0), int64(1), true, false, nil, 1.5)
	}
	for _, f := range []string{"s", "n", "flag"} {
		if c.choose(4) > 0 {
			o[f] = val()
		}
	}
	if c.choose(3) > 0 {
		m := map[string]any{}
		for _, k := range []string{"k", "a", "b"} {
			if c.choose(2) == 0 {
				m[k] = val()
			}
		}
		o["m"] = m
	}
	if c.choose(3) > 0 {
		l := []any{}
		n := c.choose(3)
		if c.choose(4) == 0 {
			n = 5 + c.choose(15)
		}
		for range n {
			l = append(l, val())
		}
		o["list"] = l
	}
	if c.choose(8) == 0 {
		o["list"] = val()
	}
	return o
}

func describe(r *Request) string {
	return strings.ReplaceAll(fmt.Sprintf("%+v", *r), "\n", " ")
}
