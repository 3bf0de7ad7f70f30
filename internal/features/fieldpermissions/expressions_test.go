package fieldpermissions

import (
	"context"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

func compiler(t testing.TB) *expressions {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return newExpressions(expr.NewCache(cel))
}

// FP-5
func TestWhen(t *testing.T) {
	c := compiler(t)
	for _, tc := range []struct {
		expression string
		change     fieldperm.Change
		want, fail bool
	}{
		{expression: "self == true", change: fieldperm.Change{Self: true}, want: true},
		{expression: "self == true", change: fieldperm.Change{Self: false, OldSelf: true}},
		{expression: "self == true", change: fieldperm.Change{OldSelf: true}}, // removed: self is null
		{expression: "oldSelf != null && self == null", change: fieldperm.Change{OldSelf: "x"}, want: true},
		{expression: `key.startsWith("pod-security.")`, change: fieldperm.Change{Key: "pod-security.kubernetes.io/enforce"}, want: true},
		{expression: "self.replicas > 3", change: fieldperm.Change{Self: map[string]any{"replicas": int64(4)}}, want: true},
		{expression: "self.replicas > 3", change: fieldperm.Change{Self: map[string]any{}}, fail: true},
		{expression: "self", change: fieldperm.Change{Self: "text"}, fail: true},                                     // not true or false
		{expression: "self.all(a, self.all(b, a + b >= 0))", change: fieldperm.Change{Self: many(2000)}, fail: true}, // over its cost
		{expression: "self.all(a, self.all(b, a + b >= 0))", change: fieldperm.Change{Self: many(20)}, want: true},
		{expression: "self.all(a, [self] == [self])", change: fieldperm.Change{Self: many(2000)}, fail: true},
	} {
		w, err := c.When(tc.expression)
		if err != nil {
			t.Errorf("%s: %v", tc.expression, err)
			continue
		}
		got, err := w.Holds(t.Context(), tc.change)
		if got != tc.want || (err != nil) != tc.fail {
			t.Errorf("%s with %+v: %v, %v", tc.expression, tc.change, got, err)
		}
	}
}

// FP-2
func TestParameter(t *testing.T) {
	c := compiler(t)
	p, err := c.Parameter(`key.split("-")[0] + ":" + element.type`)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Parameter(t.Context(), "a-b", nil, map[string]any{"type": "Ready"}); got != "a:Ready" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := p.Parameter(t.Context(), "a-b", nil, nil); err == nil {
		t.Errorf("an element that is not there gave %q", got)
	}
	number, err := c.Parameter("value")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := number.Parameter(t.Context(), "", int64(3), nil); err == nil {
		t.Errorf("a number was taken for the text %q", got)
	}
}

// FP-4: what does not compile says where.
func TestBadExpressions(t *testing.T) {
	c := compiler(t)
	for expression, want := range map[string]string{
		"self ==":       "line 1, column 8: Syntax error",
		"self == other": "line 1, column 9: undeclared reference to 'other'",
		"1 + 1":         "must evaluate to bool but it evaluates to int",
		"":              "expression is empty",
		"\xff":          "not valid UTF-8",
	} {
		if _, err := c.When(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", expression, err)
		}
		// What is stored is compiled when it is needed, and known not to from then on.
		w, err := c.Stored().When(expression)
		if err != nil {
			t.Fatal(err)
		}
		if holds, err := w.Holds(t.Context(), fieldperm.Change{}); holds || err == nil {
			t.Errorf("%q holds once it is stored", expression)
		}
		if _, err := c.Stored().When(expression); err == nil {
			t.Errorf("%q compiles once it is stored", expression)
		}
	}
	if _, err := c.Parameter("true"); err == nil || !strings.Contains(err.Error(), "must evaluate to string") {
		t.Errorf("%v", err)
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"self == true", `key + "x"`, "self.a[0].b", "[self].exists(x, x == oldSelf)"} {
		f.Add(seed)
	}
	c := compiler(f)
	f.Fuzz(func(t *testing.T, expression string) {
		if len(expression) > 1000 {
			return
		}
		if w, err := c.When(expression); err == nil {
			_, _ = w.Holds(t.Context(), fieldperm.Change{Key: "k", Self: map[string]any{"a": []any{"b"}}, OldSelf: int64(1)})
		}
		if p, err := c.Parameter(expression); err == nil {
			_, _ = p.Parameter(t.Context(), "k", "v", map[string]any{"type": "t"})
		}
	})
}

func many(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = int64(i)
	}
	return all
}

// SV-7, PO-21: expressions of field permissions have the limits of conditions.
func TestBombs(t *testing.T) {
	c := compiler(t)
	for _, bomb := range []string{
		strings.Repeat("[", 240) + strings.Repeat("]", 240) + " == self",
		"optional.of(self)" + strings.Repeat(".optMap(x,x)", 40) + ".hasValue()",
		"self.all(a, self.all(b, self.all(c, self.all(d, true))))",
		`key.matches("` + strings.Repeat("x{1000}", 100) + `")`,
	} {
		if _, err := c.When(bomb); err == nil || !strings.Contains(err.Error(), "too") {
			t.Errorf("%.40s: %v", bomb, err)
		}
	}
}

// Everything that is evaluated for a request spends from one budget and ends with it. Whatever fails is exclusive.
func TestEvaluationEnds(t *testing.T) {
	w, err := compiler(t).When("self.all(a, self.all(b, a + b >= 0))")
	if err != nil {
		t.Fatal(err)
	}
	change := fieldperm.Change{Self: many(100)}
	ctx := expr.WithBudget(t.Context(), expr.NewBudget(1_000_000))
	held := 0
	for range 1000 {
		holds, err := w.Holds(ctx, change)
		if !holds {
			if err == nil {
				t.Fatal("it does not hold, without an error")
			}
			break
		}
		held++
	}
	if held == 0 || held == 1000 {
		t.Errorf("held %d times of 1000", held)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if holds, err := w.Holds(gone, change); holds || err == nil {
		t.Errorf("evaluated for a client that has left: %v, %v", holds, err)
	}
}
