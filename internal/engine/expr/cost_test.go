package expr

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"proviso.dev/proviso/internal/engine/expr/cost"
	"proviso.dev/proviso/test/law"
)

// swell makes an object large, without changing its shape.
func swell(c chooser, v any) any {
	switch v := v.(type) {
	case string:
		return strings.Repeat(v, 1+c.choose(2)*5000)
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = swell(c, e)
		}
		return out
	case []any:
		var out []any
		for _, e := range v {
			for range 1 + c.choose(2)*200 {
				out = append(out, swell(c, e))
			}
		}
		return out
	}
	return v
}

func swollen(c chooser, m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	return swell(c, m).(map[string]any)
}

// What is said to stay within bounds does, however large the object and, for
// small requests, however large they are within the definition: otherwise cost
// would go unlimited, and a decision could skip what fails.
func TestBoundsHold(t *testing.T) {
	c := compiler(t)
	checked := map[string]int{}
	law.Rounds(t, 150, func(seed int64) int {
		rnd, kind := seeded(seed), Kind(seed&1)
		source := genExpr(rnd, kind, true)
		p, issues := c.Compile(source, Options{Kind: kind})
		if issues != nil {
			return 0
		}
		env := c.envs[kind].StoredExpressionsEnv()
		ast, _ := env.Compile(source)
		prog, err := env.Program(ast, cel.CostLimit(math.MaxUint64))
		if err != nil {
			t.Fatal(err)
		}
		costOf := func(a *activation) uint64 {
			_, det, _ := prog.Eval(a)
			return *det.ActualCost()
		}
		for range 10 {
			f := genFacts(rnd)
			for range rnd.choose(300) {
				f.req.Groups = append(f.req.Groups, strings.Repeat("b", rnd.choose(cost.Small.Bytes)))
			}
			if !f.req.isSmall() {
				t.Fatal("the request is not small")
			}
			f.object, f.old, f.options = swollen(rnd, f.object), swollen(rnd, f.old), swollen(rnd, f.options)
			d := f.data()
			check := func(name string, holds bool, a *activation) {
				if !holds {
					return
				}
				checked[name]++
				if got := costOf(a); got > p.bounds.Cost {
					t.Fatalf("%s: %s costs %d, more than %d", name, source, got, p.bounds.Cost)
				}
			}
			second := &activation{req: f.req, data: d, resource: d.loadObject("")}
			check("always", p.bounds.Always, second)
			check("second", p.bounds.Second, second)
			check("first", p.bounds.First, &activation{req: f.req})
			if p.counted != nil {
				turns := &counted{code: p.counted.code, turn: p.counted.turn, turns: math.MaxInt}
				_, most, _, _ := turns.eval(context.Background(), second)
				checked["turns"] += second.meter.turns
				if got := costOf(second); got > most {
					t.Fatalf("%s costs %d, more than %d for %d turns", source, got, most, second.meter.turns)
				}
			}
		}
		return 10
	})
	for _, name := range []string{"always", "second", "first", "turns"} {
		if checked[name] == 0 {
			law.TooFew(t, "no expression has the bound %q: the test proves nothing", name)
		}
	}
	t.Log(checked)
}

// The everyday forms are within bounds, so that they are fast and decided.
func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		source                string
		always, second, first bool
	}{
		{`object.spec.storageClassName == "dev"`, true, true, true},
		{`object.metadata.labels["a"] in ["x", "y"] && request.user.startsWith("bot-")`, true, true, true},
		{`object.owner in request.groups`, false, true, true},
		{`request.groups.exists(g, g == object.owner)`, false, true, true},
		{`request.user == "x" && object.l.all(x, x == 1)`, false, false, true},
		{`object.l.all(x, x == 1)`, false, false, true},
		{`object.s.contains(object.t)`, false, false, true},
	} {
		p := compile(t, When, tc.source)
		if b := p.bounds; b.Always != tc.always || b.Second != tc.second || b.First != tc.first {
			t.Errorf("%s: %+v", tc.source, b)
		}
	}
}

// A request that is not small is evaluated under the cost limit.
func TestLargeRequest(t *testing.T) {
	huge := edgar()
	for range 300000 {
		huge.Groups = append(huge.Groups, "g")
	}
	p := compile(t, When, `request.groups.exists(g, g == "x") && object.x == 1`)
	if p.quick == nil {
		t.Fatal("the expression has no quick form, so that the test proves nothing")
	}
	out := p.Decide(huge, Deny)
	if out.Truth() != Unresolved { // the first step is too short for it
		t.Errorf("%v %v", out.Truth(), out.Err())
	}
	_, err := out.Residual().Evaluate(t.Context(), data("CREATE", map[string]any{"x": 1}, nil))
	if e, ok := errors.AsType[*EvalError](err); !ok || e.Reason != ReasonCost {
		t.Errorf("%v", err)
	}
	if out := p.Decide(edgar(), Deny); out.Truth() != False {
		t.Errorf("small: %v", out.Truth())
	}
	for name, grow := range map[string]func(*Request){
		"groups":    func(r *Request) { r.Groups = make([]string, cost.Small.Items+1) },
		"a group":   func(r *Request) { r.Groups = []string{strings.Repeat("x", cost.Small.Bytes+1)} },
		"user":      func(r *Request) { r.User = strings.Repeat("x", cost.Small.Bytes+1) },
		"extra":     func(r *Request) { r.Extra = map[string][]string{"k": make([]string, cost.Small.Items+1)} },
		"extra key": func(r *Request) { r.Extra = map[string][]string{strings.Repeat("x", cost.Small.Bytes+1): nil} },
		"fields":    func(r *Request) { r.FieldSelector = make(fields.Requirements, cost.Small.Items+1) },
		"field": func(r *Request) {
			r.FieldSelector = fields.Requirements{{Value: strings.Repeat("x", cost.Small.Bytes+1)}}
		},
		"labels":       func(r *Request) { r.LabelSelector = make(labels.Requirements, cost.Small.Items+1) },
		"extra values": func(r *Request) { r.Extra = map[string][]string{"k": {strings.Repeat("x", cost.Small.Bytes+1)}} },
	} {
		r := edgar()
		if !r.isSmall() {
			t.Fatal("edgar is not small")
		}
		if grow(r); r.isSmall() {
			t.Errorf("%s: still small", name)
		}
	}
}
