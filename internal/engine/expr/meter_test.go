package expr

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/cel-go/cel"
)

// Replacing the tracker in long loops does not lose cost: what is counted is
// what cel-go counts.
func TestMeterCountsAll(t *testing.T) {
	c := compiler(t)
	env := c.envs[When].StoredExpressionsEnv()
	object := largeList(3 * renewEvery)
	object["few"] = []any{"x", "x", "x"}
	for _, source := range []string{
		`object.l.all(x, x == "x")`,
		`object.l.exists(x, x == "y")`,
		`object.l.exists_one(x, x == "y")`,
		`object.l.filter(x, x == "y").size() == 0`,
		`object.l.map(x, x + "a").size() > 0`,
		`object.l.all(i, x, x == "x" && i >= 0)`,
		`object.few.all(a, object.l.all(b, a == b))`,
		`object.l.all(a, object.few.all(b, a == b))`,
		`object.l.all(x, x.startsWith("x")) && object.l.all(x, x.contains("x"))`,
	} {
		checked, _ := env.Compile(source)
		prog, err := env.Program(checked, cel.CostLimit(math.MaxUint64))
		if err != nil {
			t.Fatal(err)
		}
		_, det, err := prog.Eval(map[string]any{"object": object})
		if err != nil {
			t.Fatal(err)
		}
		want := *det.ActualCost()
		s, err := c.planners[When].stored.tracked(checked)
		if err != nil {
			t.Fatal(err)
		}
		a := &activation{req: edgar(), data: data("CREATE", object, nil)}
		out, got, err := s.eval(context.Background(), a)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		// A call whose operands were on the stack of a replaced tracker goes
		// uncounted: one at most for each.
		if slack := uint64(a.meter.turns / renewEvery); a.meter.turns < renewEvery || got > want || got+slack < want {
			t.Errorf("%s = %v: cost %d, cel-go counts %d, %d turns", source, out, got, want, a.meter.turns)
		}
	}
}

// A loop that would take minutes in cel-go stops at the cost limit in
// reasonable time; one that only cel-go can run is limited in turns.
func TestLongLoops(t *testing.T) {
	long := largeList(400000)
	for _, source := range []string{
		`object.l.all(x, x == "x")`,
		`object.l.all(x, x == "x" && request.user == "edgar")`,
		`object.l.all(x, optional.of(x).orValue("") == "x")`,
	} {
		_, err := compile(t, When, source).Evaluate(context.Background(), edgar(), Deny, data("CREATE", long, nil))
		var e *EvalError
		if !errors.As(err, &e) || e.Reason != ReasonCost {
			t.Errorf("%s: %v", source, err)
		}
	}
	for _, source := range []string{
		`object.l.all(x, x == "x")`,
		`object.l.all(x, optional.of(x).orValue("") == "x")`,
	} {
		if ok, err := compile(t, When, source).Evaluate(context.Background(), edgar(), Deny, data("CREATE", largeList(5000), nil)); !ok || err != nil {
			t.Errorf("%s: %v, %v", source, ok, err)
		}
	}
}

// A loop over a list of ordinary length is counted and not tracked; one that is too long for that is evaluated all the
// same, under the cost limit.
func TestCountedLoops(t *testing.T) {
	p := compile(t, When, `object.l.all(x, x.startsWith("a"))`)
	if p.counted == nil {
		t.Fatal("the loop is not counted, so that the test proves nothing")
	}
	for _, n := range []int{3, p.counted.turns, p.counted.turns + 1} {
		list := make([]any, n)
		for i := range list {
			list[i] = "a"
		}
		a := &activation{req: edgar(), data: data("CREATE", map[string]any{"l": list}, nil)}
		_, cost, err, done := p.counted.eval(t.Context(), a)
		if done != (n <= p.counted.turns) || done && (err != nil || cost > p.compiler.callLimit) {
			t.Errorf("%d turns: done %v, cost %d, %v", n, done, cost, err)
		}
		if ok, err := p.run(t.Context(), a); !ok || err != nil {
			t.Errorf("%d turns: %v, %v", n, ok, err)
		}
	}
	if p := compile(t, When, `object.l.map(x, x.a).all(x, x == 1)`); p.counted != nil {
		t.Error("a loop that makes a list is counted")
	}
}
