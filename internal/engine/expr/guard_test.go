package expr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

func countNodes(checked *cel.Ast) int {
	n := 0
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(ast.Expr) { n++ }))
	return n
}

// hostile is an object of a few hundred kilobytes that costs little to name and much to work with.
func hostile() map[string]any {
	var items []any
	for i := range 5000 {
		items = append(items, map[string]any{"n": int64(i), "v": fmt.Sprint("value ", i)})
	}
	return map[string]any{
		"items": items, "text": strings.Repeat("a", 100_000), "pattern": strings.Repeat("x{1000}", 100), "huge": "1e999999999",
		"small": map[string]any{"items": []any{"b", "a"}, "text": "aa", "pattern": "^a+$", "quantity": "1Gi"},
	}
}

// SV-7, PO-21: calls that Kubernetes charges too little for, or too late, are charged for before they are made. Each
// has a twin that does the same with little.
func TestEvaluationBombs(t *testing.T) {
	for _, tc := range []struct{ bomb, harmless string }{
		{"object.items.all(x, [object] == [object])", "object.small.items.all(x, [object.small] == [object.small])"},
		{"object.items.all(x, object in [object])", "object.small.items.all(x, object.small in [object.small])"},
		{"!object.items.exists(x, object.items != object.items)", "object.small.items != object.items"},
		{"object.items.distinct().size() > 0", "object.small.items.distinct().size() == 2"},
		{"sets.contains(object.items, object.items)", "sets.contains(object.small.items, object.small.items)"},
		{"object.text.replace('a', object.text).size() > 0", "object.small.text.replace('a', 'bb') == 'bbbb'"},
		{"object.items.map(x, '').join(object.text).size() > 0", "object.small.items.join('-') == 'b-a'"},
		{"object.text.matches(object.pattern)", "object.small.text.matches(object.small.pattern)"},
		{"object.items.all(x, object.text.matches('(a{0,40}b?){20}c'))", "object.small.text.matches('^a{2}$')"},
		{"object.text.findAll(object.pattern).size() == 0", "object.small.text.findAll('a').size() == 2"},
		{"'%.999999f'.format([1.0]).size() > 0", "'%.2f'.format([1.0]) == '1.00'"},
		{"quantity(object.huge).isInteger()", "quantity(object.small.quantity).isInteger()"},
		{"!isQuantity(object.huge)", "isQuantity(object.small.quantity)"},
		{"[object.items].map(a, " + strings.Repeat("a+", 30) + "a).map(a, " + strings.Repeat("a+", 30) + "a)[0].size() > 0", "[object.small.items].map(a, a+a)[0].size() == 4"},
		{"[1]" + strings.Repeat(".map(a,dyn([a,a,a,a,a,a,a,a]))", 9) + " == [2]" + strings.Repeat(".map(a,dyn([a,a,a,a,a,a,a,a]))", 9), "[1].map(a,dyn([a,a])) == [[1, 1]]"},
		{"object.items.all(x, timestamp('2020-01-01T00:00:00Z').getHours('America/New_York') >= 0) && object.items.all(y, timestamp('2020-01-01T00:00:00Z').getHours('America/New_York') >= 0) && object.items.all(z, timestamp('2020-01-01T00:00:00Z').getHours('America/New_York') >= 0)",
			"timestamp('2020-01-01T00:00:00Z').getHours('America/New_York') == 19"},
	} {
		t.Run(tc.bomb[:min(len(tc.bomb), 40)], func(t *testing.T) {
			p := compile(t, When, tc.bomb)
			if p.quick != nil || p.counted != nil {
				t.Error("it is evaluated without tracking its cost")
			}
			_, err := p.Evaluate(t.Context(), edgar(), Deny, data("CREATE", hostile(), nil))
			if e, ok := errors.AsType[*EvalError](err); !ok || e.Reason != ReasonCost {
				t.Errorf("bomb: %v", err)
			}
			ok, err := compile(t, When, tc.harmless).Evaluate(t.Context(), edgar(), Deny, data("CREATE", hostile(), nil))
			if !ok || err != nil {
				t.Errorf("%s: %v, %v", tc.harmless, ok, err)
			}
		})
	}
}

// A comparison with something flat needs no guard, and stays quick.
func TestCheapComparisonsStayQuick(t *testing.T) {
	for _, source := range []string{
		`object.a == "x"`, `object.a in ["x", "y"]`, `object.owner in request.groups`, `request.user + "-x" == object.a`, `object.a.matches("^[a-z]+$")`,
	} {
		if p := compile(t, When, source); p.quick == nil {
			t.Errorf("%s is not quick", source)
		}
	}
}

// A client that has left is not worked for any longer, in whichever way the condition is evaluated.
func TestEvaluationEndsWithTheRequest(t *testing.T) {
	for _, source := range []string{
		`object.items.all(x, x.n >= 0)`,                                                            // counted
		`object.items.all(x, object.items.all(y, x.n + y.n >= 0))`,                                 // counted, then tracked
		`object.items.all(x, optional.of(x).hasValue())`,                                           // cel-go's
		`object.items.all(x, [x] == [x])`,                                                          // guarded
		`[1,2,3].all(x, object.small == object.small && object.small.items == object.small.items)`, // guarded, without a long loop
	} {
		ctx := &leaving{Context: t.Context(), after: 2}
		_, err := compile(t, When, source).Evaluate(ctx, edgar(), Deny, data("CREATE", hostile(), nil))
		if e, ok := errors.AsType[*EvalError](err); !ok || e.Reason != ReasonCancelled {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// leaving is the context of a request whose client leaves once it has been looked at a few times.
type leaving struct {
	context.Context
	after  int
	looked int
	done   chan struct{}
}

func (l *leaving) Err() error {
	if l.looked++; l.looked > l.after {
		return context.Canceled
	}
	return nil
}

func (l *leaving) Done() <-chan struct{} {
	if l.done == nil {
		l.done = make(chan struct{})
	}
	if l.looked >= l.after {
		select {
		case <-l.done:
		default:
			close(l.done)
		}
	}
	return l.done
}

// The first step has a budget for all conditions of a request; what it cannot decide stays open, and is decided when
// the request is admitted.
func TestFirstStepBudget(t *testing.T) {
	list := "[0" + strings.Repeat(",0", 100) + "]"
	p := compile(t, When, list+".all(x, "+list+".all(y, request.user != 'eve' && x == y))")
	req := edgar()
	decided := 0
	for range 100 {
		if p.Decide(req, Deny).Truth() == True {
			decided++
		}
	}
	if decided == 0 || decided == 100 {
		t.Errorf("%d of 100 conditions were decided in the first step", decided)
	}
	ok, err := p.Decide(req, Deny).Residual().Evaluate(t.Context(), data("CREATE", map[string]any{}, nil))
	if !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}
