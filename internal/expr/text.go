package expr

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Text implements Condition: what is left of the expression when the request
// is known, as source in terms of object, oldObject and so on. If the text
// would be too long, or a known value cannot be written down, it mentions
// `request` instead of the value.
func (p *Program) Text(req *Request, effect Effect) string {
	if req == nil {
		return p.fallback(req, effect)
	}
	parsed, iss := p.compiler.plain.Parse(p.source)
	if iss != nil && iss.Err() != nil {
		return p.fallback(req, effect)
	}
	f := &folder{c: p.compiler, req: req, bound: map[string]int{}}
	e := f.fold(parsed.NativeRep().Expr())
	if p.kind == Where {
		var ok bool
		if e, ok = forVersions(e, req.Verb, effect); !ok {
			return p.fallback(req, effect)
		}
	}
	text := printExpr(e)
	if len(text) > MaxLength || !p.compiler.compiles(text) {
		return p.fallback(req, effect)
	}
	return text
}

func (c *Compiler) compiles(text string) bool {
	_, iss := c.envs[When].StoredExpressionsEnv().Compile(text)
	return iss == nil || iss.Err() == nil
}

// fallback is the expression as it was written. It always fits.
func (p *Program) fallback(req *Request, effect Effect) string {
	if p.kind == When {
		return p.source
	}
	verb := ""
	if req != nil {
		verb = req.Verb
	}
	quantifier := "exists"
	if effect == Allow {
		quantifier = "all"
	}
	return "[" + strings.Join(versionsOf(verb), ", ") + "]." + quantifier + "(resource, " + p.source + "\n)"
}

// versionsOf names the versions of the object that a request with this verb
// touches.
func versionsOf(verb string) []string {
	switch verb {
	case "create":
		return []string{varObject}
	case "delete", "deletecollection":
		return []string{varOldObject}
	default:
		return []string{varOldObject, varObject}
	}
}

// forVersions writes a where in terms of object and oldObject. It gives up if
// a loop variable has the name of one of them.
func forVersions(e ast.Expr, verb string, effect Effect) (ast.Expr, bool) {
	vars := versionsOf(verb)
	if slices.ContainsFunc(vars, func(v string) bool { return bindsName(e, v) }) {
		return nil, false
	}
	// The verbs of which it is known that all these versions exist.
	certain := slices.Contains([]string{"create", "delete", "deletecollection", "update", "patch"}, verb)
	op, absent := operators.LogicalOr, operators.NotEquals
	if effect == Allow {
		op, absent = operators.LogicalAnd, operators.Equals
	}
	b, isLit := boolLiteral(e)
	if isLit && (b == types.False || effect != Allow) {
		return e, true // independent of the object
	}
	var all ast.Expr
	for _, v := range vars {
		var one ast.Expr
		switch {
		case isLit: // true: what is left to ask is that there is a version
			one = compareNull(v, operators.NotEquals)
		case certain:
			one = rename(e, varResource, v)
		case effect == Allow:
			one = factory.NewCall(0, operators.LogicalOr, compareNull(v, absent), rename(e, varResource, v))
		default:
			one = factory.NewCall(0, operators.LogicalAnd, compareNull(v, absent), rename(e, varResource, v))
		}
		if all == nil {
			all = one
			continue
		}
		if isLit && !certain {
			all = factory.NewCall(0, operators.LogicalOr, all, one)
		} else {
			all = factory.NewCall(0, op, all, one)
		}
	}
	if !certain && !isLit {
		all = factory.NewCall(0, op, all, anyExists(effect))
	}
	return all, true
}

// anyExists closes the case that there is no version at all: an allow does not
// hold then, a deny does.
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

// truncateText cuts text that is too long in a way that does not parse, so
// that it cannot be taken for the condition.
func truncateText(s string) string {
	const mark = " … (truncated)"
	cut := MaxLength - len(mark)
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + mark
}
