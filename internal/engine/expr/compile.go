package expr

import (
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"proviso.dev/proviso/internal/engine/expr/cost"
)

// Options says how an expression is compiled.
type Options struct {
	// Kind is the dialect.
	Kind Kind
	// Stored relaxes the check for expressions that are already stored: they may use libraries of a later version, so a
	// rollback does not break them.
	Stored bool
	// APIVersion is the version of the group that the expression is written
	// for; empty means the preferred served version.
	APIVersion string
	// Types are the kinds that the expression must type-check against. None
	// leaves the object unchecked.
	Types []*Type
}

// Compile parses, checks and plans an expression, once. If anything is wrong
// with it the program is nil and the issues say what and where. Bad input
// never panics and takes bounded time.
func (c *Compiler) Compile(source string, opts Options) (*Program, Issues) {
	if opts.Kind >= kinds {
		return nil, wholeIssue("kind of expression %d is not known", opts.Kind)
	}
	if issues := checkSource(source, opts.Kind); issues != nil {
		return nil, issues
	}
	written, issues := c.parse(source)
	if issues != nil {
		return nil, issues
	}
	env := c.env(opts)
	ast, iss := env.Compile(source)
	if failedIssues(iss) {
		return nil, fromCEL(iss)
	}
	if issues := checkResult(opts.Kind, ast.OutputType()); issues != nil {
		return nil, issues
	}
	for _, t := range opts.Types {
		if issues := c.checkType(source, opts, t); issues != nil {
			return nil, issues
		}
	}
	if !opts.Stored {
		if issues := checkZones(ast); issues != nil {
			return nil, issues
		}
	}
	uses := usageOf(ast.NativeRep().Expr())
	price := cost.Expression{Env: env, Checked: ast, Request: varRequest, Selects: uses.selects}
	if err := price.Check(c.estimateLimit, c.callLimit); err != nil {
		return nil, wholeIssue("%v", err)
	}
	p := &Program{
		compiler:   c,
		source:     source,
		kind:       opts.Kind,
		apiVersion: opts.APIVersion,
		bounds:     price.Bounds(c.callLimit, firstStepLimit),
		uses:       uses,
	}
	if err := p.plan(env, ast, c.planner(opts)); err != nil {
		return nil, wholeIssue("expression cannot be planned: %v", err)
	}
	if opts.Kind == Where {
		p.written = written
	}
	if !uses.request && !opts.Kind.ofField() {
		p.settle()
	}
	return p, nil
}

// plan plans the steps of the program: one that is correct for every input, and one that is faster within the bounds.
func (p *Program) plan(env *cel.Env, ast *cel.Ast, pl *planner) (err error) {
	plain := isPlain(ast) && len(guarded(ast)) == 0
	if plain && (p.bounds.First || p.bounds.Second) {
		code, err := pl.untracked(ast)
		if err != nil {
			return err
		}
		p.quick = &bounded{code: code, cost: p.bounds.Cost}
		if p.bounds.Always && p.bounds.Cost <= firstStepLimit {
			p.full = p.quick
			return nil
		}
	}
	if plain && !p.bounds.Second && p.bounds.Turn > 0 {
		code, err := pl.counting(ast)
		if err != nil {
			return err
		}
		p.counted = &counted{code: code, turn: p.bounds.Turn, turns: int(pl.limit/p.bounds.Turn) - 1}
	}
	p.full, err = pl.steps(env, ast)
	return err
}

func (c *Compiler) planner(opts Options) *planner {
	if opts.Stored {
		return c.planners[opts.Kind].stored
	}
	return c.planners[opts.Kind].new
}

func (c *Compiler) env(opts Options) *cel.Env {
	if opts.Stored {
		return c.envs[opts.Kind].StoredExpressionsEnv()
	}
	return c.envs[opts.Kind].NewExpressionsEnv()
}

// whereFrame is what Text needs around a where to show it for both versions.
const whereFrame = "[oldObject, object].exists(resource, \n)"

// checkSource refuses what should not reach a parser.
func checkSource(source string, kind Kind) Issues {
	limit := MaxLength
	if kind == Where {
		limit -= len(whereFrame)
	}
	switch {
	case source == "":
		return wholeIssue("expression is empty: write true for a condition that always holds")
	case len(source) > limit:
		return wholeIssue("expression is too long: %d bytes, the limit is %d", len(source), limit)
	case !utf8.ValidString(source):
		return wholeIssue("expression is not valid UTF-8")
	}
	return nil
}

// checkResult refuses a result of another type than the kind needs. For field permissions the type may be known only at
// evaluation.
func checkResult(kind Kind, out *cel.Type) Issues {
	switch {
	case kind == Parameter && !out.IsExactType(cel.StringType) && !out.IsExactType(cel.DynType):
		return wholeIssue("expression must evaluate to string but it evaluates to %v", out)
	case kind == Exclusive && !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType):
		return wholeIssue("expression must evaluate to bool but it evaluates to %v", out)
	case !kind.ofField() && !out.IsExactType(cel.BoolType):
		return wholeIssue("expression must evaluate to bool but it evaluates to %v; "+
			"compare the value, for example with == true", out)
	}
	return nil
}

// checkType compiles the expression once more with the declared type of a
// kind. The result is thrown away: evaluation works on untyped data, as in
// ValidatingAdmissionPolicy.
func (c *Compiler) checkType(source string, opts Options, t *Type) Issues {
	if t == nil {
		return nil
	}
	env, err := c.typedEnv(opts, t)
	if err != nil {
		return wholeIssue("type of the object cannot be used: %v", err)
	}
	ast, iss := env.Compile(source)
	if failedIssues(iss) {
		return fromCEL(iss)
	}
	if out := ast.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return wholeIssue("expression must evaluate to bool but it evaluates to %v", out)
	}
	return nil
}

func (c *Compiler) typedEnv(opts Options, t *Type) (*cel.Env, error) {
	set, err := c.base.Extend(declarations(opts.Kind, t))
	if err != nil {
		return nil, err
	}
	typ := environment.NewExpressions
	if opts.Stored {
		typ = environment.StoredExpressions
	}
	return set.Env(typ)
}
