package expr

import (
	"context"
	"os"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/test/law"
)

// answer is what a condition gives: true, false, or an error.
type answer int

const (
	no answer = iota
	yes
	fails
)

func (a answer) String() string { return [...]string{"false", "true", "fails"}[a] }

func toAnswer(ok bool, err error) answer {
	switch {
	case err != nil:
		return fails
	case ok:
		return yes
	default:
		return no
	}
}

// naive evaluates in one step, with everything bound in a plain map. It shares
// nothing with the code under test but cel-go.
type naive struct {
	prog cel.Program
	kind Kind
}

func newNaive(t testing.TB, c *Compiler, kind Kind, source string) naive {
	t.Helper()
	env := c.envs[kind].StoredExpressionsEnv()
	ast, iss := env.Compile(source)
	if iss != nil && iss.Err() != nil {
		t.Fatalf("%s: %v", source, iss.Err())
	}
	prog, err := env.Program(ast, cel.CostLimit(c.callLimit))
	if err != nil {
		t.Fatal(err)
	}
	return naive{prog, kind}
}

func (n naive) once(vars map[string]any) answer {
	out, _, err := n.prog.Eval(vars)
	if err != nil {
		return fails
	}
	b, ok := out.(types.Bool)
	if !ok {
		return fails
	}
	return toAnswer(bool(b), nil)
}

func nativeRequest(r *Request) map[string]any {
	extra := map[string]any{}
	for k, v := range r.Extra {
		extra[k] = v
	}
	groups := append([]string{}, r.Groups...)
	none := map[string]any{"requirements": []any{}}
	return map[string]any{
		"user": r.User, "uid": r.UID, "groups": groups, "extra": extra, "verb": r.Verb, "apiGroup": r.APIGroup,
		"apiVersion": r.APIVersion, "resource": r.Resource, "subresource": r.Subresource, "namespace": r.Namespace,
		"name": r.Name, "fieldSelector": none, "labelSelector": none,
	}
}

// facts is everything about one request.
type facts struct {
	req         *Request
	operation   string
	object, old map[string]any // nil: none
	options     map[string]any
	namespace   map[string]any
	ownKind     bool
}

func (f facts) data() *Data {
	cfg := DataConfig{
		Operation: f.operation, OwnKind: f.ownKind, Options: obj(f.options),
		Objects: Static{New: obj(f.object), Old: obj(f.old)},
	}
	if f.namespace != nil {
		cfg.Namespace = func() (runtime.Object, error) { return obj(f.namespace), nil }
	}
	return NewData(cfg)
}

func orNull(m map[string]any) any {
	if m == nil {
		return types.NullValue
	}
	return m
}

func (f facts) vars() map[string]any {
	return map[string]any{
		"object": orNull(f.object), "oldObject": orNull(f.old), "options": orNull(f.options),
		"operation": f.operation, "namespaceObject": orNull(f.namespace), "impersonatedRequest": types.NullValue,
	}
}

// answer is the one-step answer of the specification.
func (n naive) answer(f facts, effect Effect) answer {
	if n.kind == When {
		vars := f.vars()
		vars["request"] = nativeRequest(f.req)
		return n.once(vars)
	}
	var each []answer
	for _, v := range []map[string]any{f.old, f.object} {
		if v != nil && f.ownKind {
			each = append(each, n.once(map[string]any{"request": nativeRequest(f.req), "resource": v}))
		}
	}
	if effect == Allow {
		result := yes
		for _, a := range each {
			if a == no {
				return no
			}
			if a == fails {
				result = fails
			}
		}
		if len(each) == 0 {
			return no
		}
		return result
	}
	if len(each) == 0 {
		each = []answer{n.once(map[string]any{"request": nativeRequest(f.req), "resource": types.NewErr("none")})}
	}
	for _, a := range each {
		if a != no {
			return yes
		}
	}
	return no
}

func genFacts(c chooser) facts {
	f := facts{ownKind: c.choose(8) > 0}
	verb := pick(c, "create", "update", "delete", "patch", "frob")
	f.req = genRequest(c, verb)
	switch verb {
	case "create":
		f.operation, f.object = "CREATE", genObject(c)
	case "delete":
		f.operation, f.old = "DELETE", genObject(c)
	case "frob":
		f.operation = "CONNECT"
		if c.choose(2) == 0 {
			f.object = genObject(c)
		}
		if c.choose(2) == 0 {
			f.old = genObject(c)
		}
	default:
		f.operation, f.object, f.old = "UPDATE", genObject(c), genObject(c)
		if c.choose(3) == 0 {
			f.old = f.object
		}
	}
	if c.choose(2) == 0 {
		f.options = genObject(c)
	}
	if c.choose(2) == 0 {
		f.namespace = map[string]any{"metadata": map[string]any{"name": f.req.Namespace}}
	}
	return f
}

// checkLaw compares two steps with one for one expression and one request
// under every effect. CA-3, CA-12.
func checkLaw(t testing.TB, p *Program, n naive, f facts) {
	for _, effect := range []Effect{Allow, Deny, NoOpinion} {
		one := n.answer(f, effect)
		out := p.Decide(f.req, effect)
		var two answer
		switch out.Truth() {
		case True:
			two = yes
		case False:
			two = no
		case Failed:
			two = fails
		default:
			ok, err := out.Residual().Evaluate(context.Background(), f.data())
			two = toAnswer(ok, err)
		}
		if IsOpen(p) {
			ok, err := p.Evaluate(context.Background(), nil, effect, f.data())
			if without := toAnswer(ok, err); out.Truth() != Unresolved || without != two {
				t.Fatalf("%s %s: %v, %v with a request and %v without\nexpression %s", p.kind, effect, out.Truth(), two, without, p.source)
			}
		}
		same := one == two
		if effect == Allow && out.Truth() != Unresolved {
			same = (one == yes) == (two == yes) // a failing Allow is ignored
		}
		if !same {
			t.Fatalf("%s %s: one step %v, two steps %v (%v)\nexpression %s\nrequest %s\nobject %v\nold %v\noptions %v own kind %v",
				p.kind, effect, one, two, out.Truth(), p.source, describe(f.req), f.object, f.old, f.options, f.ownKind)
		}
	}
}

// seeded returns the source of choices of one round.
func seeded(seed int64) *randChooser {
	rnd := randChooser(uint64(seed) * 0x9e3779b97f4a7c15)
	return &rnd
}

// tight has a cost limit so low that many evaluations exceed it.
func tight(t testing.TB, limit uint64) *Compiler {
	t.Helper()
	c, err := New(Config{CallLimit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// CA-3, CA-12, CA-13: two steps give what one step gives, errors included,
// also those by cost.
func TestTwoStepsEqualOne(t *testing.T) {
	for _, tc := range []struct {
		name string
		c    *Compiler
	}{
		{"kubernetes limit", compiler(t)},
		{"limit 4", tight(t, 4)},
		{"limit 12", tight(t, 12)},
		{"limit 60", tight(t, 60)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			total, skipped := 0, 0
			law.Rounds(t, 120, func(seed int64) int {
				rnd, kind := seeded(seed), Kind(seed&1)
				source := genExpr(rnd, kind, tc.c.callLimit > 100)
				p, issues := tc.c.Compile(source, Options{Kind: kind})
				if issues != nil {
					skipped++
					return 0
				}
				n := newNaive(t, tc.c, kind, source)
				requests, effects := 30, 3
				if os.Getenv(law.EnvTime) != "" {
					requests = 300 // compiling is what costs
				}
				for range requests {
					checkLaw(t, p, n, genFacts(rnd))
				}
				total += requests * effects
				return requests * effects
			})
			if skipped > total {
				law.TooFew(t, "%d of the expressions do not compile: the generator is of no use", skipped)
			}
		})
	}
}

// FuzzTwoSteps is the same law with the fuzzer choosing.
func FuzzTwoSteps(f *testing.F) {
	for i := range 20 {
		rnd := randChooser(i)
		seed := make([]byte, 64)
		for j := range seed {
			seed[j] = byte(rnd.choose(256))
		}
		f.Add(seed)
	}
	normal, low := compiler(f), tight(f, 9)
	f.Fuzz(func(t *testing.T, in []byte) {
		c := &bytesChooser{in}
		kind := Kind(c.choose(2))
		source := genExpr(c, kind, false)
		rnd := randChooser(len(in))
		for _, b := range c.b {
			rnd = rnd*31 + randChooser(b)
		}
		for _, comp := range []*Compiler{normal, low} {
			p, issues := comp.Compile(source, Options{Kind: kind})
			if issues != nil {
				continue
			}
			n := newNaive(t, comp, kind, source)
			for range 60 { // compiling is what costs
				checkLaw(t, p, n, genFacts(&rnd))
			}
		}
	})
}
