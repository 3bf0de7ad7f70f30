package expr

import (
	"strings"
	"testing"

	"proviso.dev/proviso/test/law"
)

// checkText compares the text of a residual, compiled again and evaluated with
// the data of admission alone, with the one-step answer. CA-12.
func checkText(t testing.TB, p *Program, n naive, f facts) (text string, closed bool) {
	for _, effect := range []Effect{Allow, Deny} {
		if p.Decide(f.req, effect).Truth() != Unresolved {
			continue
		}
		text = p.Text(f.req, effect)
		if len(text) > MaxLength {
			t.Fatalf("text of %s has %d bytes", p.source, len(text))
		}
		vars := f.vars()
		closed = !mentionsRequest(t, p.compiler, text)
		if !closed {
			vars["request"] = nativeRequest(f.req)
		}
		got := newNaive(t, p.compiler, When, text).once(vars)
		one := n.answer(f, effect)
		same := got == one
		if p.kind == Where && effect == Deny {
			// A deny applies where its where fails; in text the failure stays
			// a failure, which the failure mode turns into the same.
			same = (got == no) == (one == no)
		}
		if !same {
			t.Fatalf("%s %s: one step %v, text %v\nexpression %s\ntext       %s\nrequest %s\nobject %v\nold %v\noptions %v",
				p.kind, effect, one, got, p.source, text, describe(f.req), f.object, f.old, f.options)
		}
	}
	return text, closed
}

// genTextFacts leaves out what text cannot say: a body of another kind, and a
// write without any version of the object.
func genTextFacts(c chooser) facts {
	f := genFacts(c)
	f.ownKind = true
	if f.object == nil && f.old == nil {
		f.object = genObject(c)
	}
	return f
}

func mentionsRequest(t testing.TB, c *Compiler, text string) bool {
	ast, iss := c.envs[When].StoredExpressionsEnv().Compile(text)
	if iss != nil && iss.Err() != nil {
		t.Fatalf("text does not compile: %s: %v", text, iss.Err())
	}
	return usageOf(ast.NativeRep().Expr()).request
}

// CA-12: the residual shown to people parses back to the same meaning.
func TestTextMeansTheSame(t *testing.T) {
	c := compiler(t)
	texts, open := 0, 0
	law.Rounds(t, 100, func(seed int64) (made int) {
		rnd, kind := seeded(seed), Kind(seed&1)
		source := genExpr(rnd, kind, true)
		p, issues := c.Compile(source, Options{Kind: kind})
		if issues != nil {
			return 0
		}
		n := newNaive(t, c, kind, source)
		for range 3 {
			f := genTextFacts(rnd)
			text, closed := checkText(t, p, n, f)
			if text == "" {
				continue
			}
			texts++
			made++
			if !closed {
				open++
			}
		}
		return made
	})
	if texts == 0 || open > texts/10 {
		law.TooFew(t, "of %d texts, %d still mention the request", texts, open)
	}
	t.Logf("%d texts, %d mention the request", texts, open)
}

// FuzzText is the same law with the fuzzer choosing.
func FuzzText(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte(strings.Repeat("\x03\x07\x01", 20)))
	c := compiler(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		ch := &bytesChooser{in}
		kind := Kind(ch.choose(2))
		source := genExpr(ch, kind, true)
		facts := genTextFacts(ch)
		p, issues := c.Compile(source, Options{Kind: kind})
		if issues != nil {
			return
		}
		checkText(t, p, newNaive(t, c, kind, source), facts)
	})
}
