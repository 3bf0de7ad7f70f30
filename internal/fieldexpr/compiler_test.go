package fieldexpr

import (
	"strings"
	"testing"

	"proviso.dev/proviso/internal/fieldperm"
)

func compiler(t testing.TB) *Compiler {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return c
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
		{expression: "self", change: fieldperm.Change{Self: "text"}, fail: true}, // not true or false
		{expression: "[1,2,3,4,5,6,7,8,9,10].all(a, self.all(b, self.all(c, self.all(d, self.all(e, true)))))",
			change: fieldperm.Change{Self: many(100)}, fail: true}, // over its cost
	} {
		w, err := c.When(tc.expression)
		if err != nil {
			t.Errorf("%s: %v", tc.expression, err)
			continue
		}
		got, err := w.Holds(tc.change)
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
	if got, err := p.Parameter("a-b", nil, map[string]any{"type": "Ready"}); got != "a:Ready" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := p.Parameter("a-b", nil, nil); err == nil {
		t.Errorf("an element that is not there gave %q", got)
	}
	number, err := c.Parameter("value")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := number.Parameter("", int64(3), nil); err == nil {
		t.Errorf("a number was taken for the text %q", got)
	}
}

// FP-4: what does not compile says where.
func TestBadExpressions(t *testing.T) {
	c := compiler(t)
	for expression, want := range map[string]string{
		"self ==":       "line 1, column 8: Syntax error",
		"self == other": "line 1, column 9: undeclared reference to 'other'",
		"1 + 1":         "must give a bool, and it gives a int",
		"":              "Syntax error",
		"\xff":          "Syntax error",
	} {
		if _, err := c.When(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", expression, err)
		}
		if _, err := c.Stored().When(expression); err == nil {
			t.Errorf("%q compiles once it is stored", expression)
		}
	}
	if _, err := c.Parameter("true"); err == nil || !strings.Contains(err.Error(), "must give a string") {
		t.Errorf("%v", err)
	}
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"self == true", `key + "x"`, "self.a[0].b", "[self].exists(x, x == oldSelf)"} {
		f.Add(seed)
	}
	c := compiler(f)
	f.Fuzz(func(_ *testing.T, expression string) {
		if len(expression) > 1000 {
			return
		}
		if w, err := c.When(expression); err == nil {
			_, _ = w.Holds(fieldperm.Change{Key: "k", Self: map[string]any{"a": []any{"b"}}, OldSelf: int64(1)})
		}
		if p, err := c.Parameter(expression); err == nil {
			_, _ = p.Parameter("k", "v", map[string]any{"type": "t"})
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
