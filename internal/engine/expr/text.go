package expr

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"proviso.dev/proviso/internal/engine/expr/text"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Text implements Condition: what remains of the expression once the request is
// known, as source in terms of object, oldObject and so on. If the text would
// be too long, or a known value has no literal, it mentions `request` instead
// of the value.
func (p *Program) Text(req *Request, effect Effect) string {
	if req == nil {
		return p.fallback(req, effect)
	}
	e, ok := p.folded(req)
	if !ok {
		return p.fallback(req, effect)
	}
	if p.kind == Where {
		if p.AimsAt(req) {
			e = forTarget(e, effect)
		} else {
			e = forVersions(e, req.Verb, effect)
		}
	}
	text := text.Source(e)
	if len(text) > MaxLength || !p.compiler.compiles(text) {
		return p.fallback(req, effect)
	}
	return text
}

// folded returns the expression as written, with the known values filled in.
func (p *Program) folded(req *Request) (ast.Expr, bool) {
	e := p.written
	if e == nil {
		parsed, iss := p.compiler.plain.Parse(p.source)
		if iss != nil && iss.Err() != nil {
			return nil, false
		}
		e = parsed.NativeRep().Expr()
	}
	f := &folder{c: p.compiler, req: req, bound: map[string]int{}}
	return f.fold(e), true
}

func (c *Compiler) compiles(text string) bool {
	_, iss := c.envs[When].StoredExpressionsEnv().Compile(text)
	return iss == nil || iss.Err() == nil
}

// fallback returns the expression as written. It always fits.
func (p *Program) fallback(req *Request, effect Effect) string {
	if p.kind == When {
		return p.source
	}
	verb := ""
	if req != nil {
		verb = req.Verb
	}
	versions := versionsOf(verb)
	if p.AimsAt(req) {
		versions = []string{varTarget}
	}
	quantifier := "exists"
	if effect == Allow {
		quantifier = "all"
	}
	return "[" + strings.Join(versions, ", ") + "]." + quantifier + "(resource, " + p.source + "\n)"
}

// versionsOf names the versions of the object that a request with this verb touches. For a read, both are the same
// (RD-4).
func versionsOf(verb string) []string {
	switch {
	case verb == verbs.Create || verbs.IsRead(verb):
		return []string{varObject}
	case verbs.Deletes(verb):
		return []string{varOldObject}
	default:
		return []string{varOldObject, varObject}
	}
}

// forVersions writes a where in terms of object and oldObject.
func forVersions(e ast.Expr, verb string, effect Effect) ast.Expr {
	if b, ok := boolLiteral(e); ok {
		if b && effect == Allow {
			return everExists(verb)
		}
		return e
	}
	vars := versionsOf(verb)
	certain := allExist(verb)
	join, guard := operators.LogicalOr, operators.LogicalAnd
	test := operators.NotEquals
	if effect == Allow {
		join, guard = guard, join
		test = operators.Equals
	}
	var out ast.Expr
	for _, v := range vars {
		one := rename(freeName(e, v), varResource, v)
		if !certain {
			one = factory.NewCall(0, guard, compareNull(v, test), one)
		}
		out = joined(join, out, one)
	}
	if !certain {
		out = joined(join, out, anyExists(effect))
	}
	return out
}

// forTarget writes a where in terms of the target, which exists by the time of
// admission.
func forTarget(e ast.Expr, effect Effect) ast.Expr {
	if b, ok := boolLiteral(e); ok {
		if b && effect == Allow {
			return compareNull(varTarget, operators.NotEquals)
		}
		return e
	}
	return rename(freeName(e, varTarget), varResource, varTarget)
}

// allExist reports whether every version that the verb touches exists by the
// time of admission.
func allExist(verb string) bool { return verbs.IsRequest(verb) }

// everExists returns what remains of a where that holds for every object: that one exists.
func everExists(verb string) ast.Expr {
	if !allExist(verb) {
		return anyExists(Allow)
	}
	var out ast.Expr
	for _, v := range versionsOf(verb) {
		out = joined(operators.LogicalAnd, out, compareNull(v, operators.NotEquals))
	}
	return out
}

// joined joins two expressions with an operator; the first may be missing.
func joined(op string, a, b ast.Expr) ast.Expr {
	if a == nil {
		return b
	}
	return factory.NewCall(0, op, a, b)
}

// anyExists covers the case without any version: then an allow does not hold, and a deny does.
func anyExists(effect Effect) ast.Expr {
	if effect == Allow {
		return factory.NewCall(0, operators.LogicalOr,
			compareNull(varOldObject, operators.NotEquals), compareNull(varObject, operators.NotEquals))
	}
	return factory.NewCall(0, operators.LogicalAnd,
		compareNull(varOldObject, operators.Equals), compareNull(varObject, operators.Equals))
}

func compareNull(name, op string) ast.Expr {
	return factory.NewCall(0, op, factory.NewIdent(0, name), factory.NewLiteral(0, types.NullValue))
}

// truncateText cuts text that is too long in a way that does not parse, so it cannot be mistaken for the condition.
func truncateText(s string) string {
	const mark = " … (truncated)"
	cut := MaxLength - len(mark)
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + mark
}
