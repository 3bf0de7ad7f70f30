package expr

import (
	"strings"
	"testing"

	"proviso.dev/proviso/internal/engine/expr/limits"
)

// bombs would keep cel-go busy for seconds, minutes or for ever; each with one that differs in size alone.
var bombs = []struct{ name, bomb, harmless, why string }{
	{"nested lists", strings.Repeat("[", 240) + strings.Repeat("]", 240) + " == []", strings.Repeat("[", 8) + strings.Repeat("]", 8) + " == []", "nested 240 deep"},
	{"types without brackets", "[1]" + strings.Repeat(".map(x,[[[[x]]]])", 5) + " == []", "[1]" + strings.Repeat(".map(x,[x])", 5) + " == []", "lists and maps are nested"},
	{"nested maps", strings.Repeat("{1:", 60) + "1" + strings.Repeat("}", 60) + " == {}", strings.Repeat("{1:", 7) + "1" + strings.Repeat("}", 7) + " == {}", "nested 60 deep"},
	{"optionals of optionals", strings.Repeat("optional.of(", 40) + "1" + strings.Repeat(")", 40) + ".hasValue()", "optional.of(optional.of(1)).hasValue()", "lists and maps are nested"},
	{"macros that double", "optional.of(1)" + strings.Repeat(".optMap(x,x)", 40) + ".hasValue()", "optional.of(1).optMap(x,x).optMap(x,x).hasValue()", "with its macros expanded"},
	{"nested macros", "object" + strings.Repeat(".map(x,x)", 60) + " == []", "object" + strings.Repeat(".map(x,x)", 8) + " == []", "nested"},
	{"minus signs", strings.Repeat("-", 9000), "- - -1 == -1", "9000 words and signs"},
	{"a broken string", strings.Repeat(`'\q+`, 2000), `'\\q+'.size() == 3`, "words and signs"},
	{"empty lists", "[] == [[]" + strings.Repeat(",[]", 700) + "]", "[] == [[]" + strings.Repeat(",[]", 400) + "]", "operators and calls"},
	{"terms", "object.a == 1" + strings.Repeat("||object.a == 1", 400), "object.a == 1" + strings.Repeat("||object.a == 1", 200), "operators and calls"},
	{"a long list", "object.a in [1" + strings.Repeat(",1", 4000) + "]", "object.a in [1" + strings.Repeat(",1", 1400) + "]", "words and signs"},
	{"pattern", "'a'.matches('" + strings.Repeat("x{1000}", 1000) + "')", "'a'.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')", "steps"},
	{"patterns", "'a'.matches('x{900}')" + strings.Repeat("||'a'.matches('x{900}')", 20), "'a'.matches('x{900}')||'a'.matches('x{600}')", "with the others before it"},
	{"a step before the request", "[0" + strings.Repeat(",0", 700) + "].all(x, [0" + strings.Repeat(",0", 700) + "].all(y, true))", "", ""},
}

// PO-21, SV-7: what would take long to compile is refused by counting.
func TestCompileBombs(t *testing.T) {
	for _, tc := range bombs {
		t.Run(tc.name, func(t *testing.T) {
			p, issues := compiler(t).Compile(tc.bomb, Options{Kind: When, Stored: true})
			if tc.why == "" {
				if p == nil || p.Decide(edgar(), Deny).Truth() != Unresolved {
					t.Fatalf("decided in the first step, or not at all: %v", issues)
				}
				return
			}
			if p != nil || !strings.Contains(issues.Error(), tc.why) {
				t.Fatalf("issues %q, want …%s…", issues.Error(), tc.why)
			}
			if _, issues := compiler(t).Compile(tc.harmless, Options{Kind: When, Stored: true}); issues != nil {
				t.Errorf("%s: %v", tc.harmless, issues)
			}
		})
	}
}

// FuzzLimits holds what the limits promise: whatever text is compiled, the type checker sees no more than they allow.
func FuzzLimits(f *testing.F) {
	for _, b := range bombs {
		f.Add(b.bomb)
		f.Add(b.harmless)
	}
	f.Fuzz(func(t *testing.T, source string) {
		p, issues := compiler(t).Compile(source, Options{Kind: When, Stored: true})
		if p == nil && len(issues) == 0 {
			t.Fatal("neither a program nor an issue")
		}
		if p == nil {
			return
		}
		env := compiler(t).envs[When].StoredExpressionsEnv()
		ast, _ := env.Compile(source)
		if nodes := countNodes(ast); nodes > limits.MaxNodes {
			t.Fatalf("%d nodes after expansion, the limit is %d: %s", nodes, limits.MaxNodes, source)
		}
	})
}
