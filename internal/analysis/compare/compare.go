package compare

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/google/cel-go/common/ast"

	"proviso.dev/proviso/internal/engine/expr"
)

// Relation compares what is allowed after with what is allowed before.
type Relation string

// The relations (TR-16).
const (
	Equivalent Relation = "equivalent"
	Wider      Relation = "wider"
	Narrower   Relation = "narrower"
	Neither    Relation = "neither"
	Unclear    Relation = "unknown"
)

// Access is what is allowed: requests for which an allow holds and no deny. A nil condition always holds.
type Access struct {
	Allow, Deny []expr.Condition
	// Walk is instead of them for rules of several tiers: the first that holds decides.
	Walk []Step
}

// Step is a rule on the way.
type Step struct {
	Condition expr.Condition
	Deny      bool
}

// steps are the rules in the order in which they decide.
func (a Access) steps() []Step {
	if a.Walk != nil {
		return a.Walk
	}
	var steps []Step
	for _, c := range a.Deny {
		steps = append(steps, Step{c, true})
	}
	for _, c := range a.Allow {
		steps = append(steps, Step{c, false})
	}
	return steps
}

func (s Step) effect() expr.Effect {
	if s.Deny {
		return expr.Deny
	}
	return expr.Allow
}

// Same reports whether two accesses consist of the same conditions, for requests like the given one, which determines
// what a `where` is about. Conditions that are not expressions, such as those on names, are the same if they are made
// of the same values.
func (a Access) Same(b Access, like *expr.Request) bool {
	equal := func(x, y expr.Condition) bool {
		p, ok := x.(*expr.Program)
		q, too := y.(*expr.Program)
		if ok && too {
			return p.Source() == q.Source() && p.Kind() == q.Kind() && p.APIVersion() == q.APIVersion() && p.AimsAt(like) == q.AimsAt(like)
		}
		return ok == too && reflect.DeepEqual(x, y)
	}
	parts := func(steps []Step) (out []expr.Condition) {
		for _, step := range steps {
			out = append(append(out, expr.Parts(step.Condition)...), nil)
		}
		return out
	}
	x, y := a.steps(), b.steps()
	return slices.EqualFunc(x, y, func(s, t Step) bool { return s.Deny == t.Deny }) && slices.EqualFunc(parts(x), parts(y), equal)
}

// Result is the answer. A witness is there whenever it was found, also beside an unknown relation.
type Result struct {
	Relation Relation
	// Gained is allowed after and not before, Lost is allowed before and not after.
	Gained, Lost *Witness
	// Why is the reason for an unknown relation.
	Why string
}

// Comparer compares. It is safe for concurrent use.
type Comparer struct {
	// Cache compiles the parts of conditions, each once.
	Cache *expr.Cache
	// Budget is the number of steps for one question; 0 means DefaultBudget.
	Budget int

	mu     sync.Mutex
	parsed map[string]ast.Expr
}

// maxParsed bounds the cache of parsed conditions.
const maxParsed = 4096

// syntax parses an expression once.
func (c *Comparer) syntax(source string) (ast.Expr, expr.Issues) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.parsed[source]; ok {
		return e, nil
	}
	e, issues := c.Cache.Compiler().Syntax(source)
	if len(issues) > 0 {
		return nil, issues
	}
	if c.parsed == nil || len(c.parsed) >= maxParsed {
		c.parsed = map[string]ast.Expr{}
	}
	c.parsed[source] = e
	return e, nil
}

// DefaultBudget is about a tenth of a second.
const DefaultBudget = 100_000

// Compare answers how after relates to before among the requests and objects of the universe.
func (c *Comparer) Compare(ctx context.Context, before, after Access, u Universe) Result {
	if before.Same(after, u.like()) {
		return Result{Relation: Equivalent}
	}
	s, err := c.prepare(ctx, before, after, u)
	if err != nil {
		return Result{Relation: Unclear, Why: err.Error()}
	}
	var r Result
	var gained, lost bool // are known not to exist
	var why error
	r.Gained, gained, why = s.find(1, 0)
	if r.Lost, lost, err = s.find(0, 1); err != nil {
		why = err
	}
	switch {
	case r.Gained != nil && r.Lost != nil:
		r.Relation = Neither
	case r.Gained != nil && lost:
		r.Relation = Wider
	case r.Lost != nil && gained:
		r.Relation = Narrower
	case gained && lost:
		r.Relation = Equivalent
	default:
		r.Relation, r.Why = Unclear, fmt.Sprint(why)
	}
	return r
}

// Possible reports whether anything is allowed at all, with a witness; unclear if it could not be found out.
func (c *Comparer) Possible(ctx context.Context, a Access, u Universe) (w *Witness, possible, unclear bool) {
	r := c.Compare(ctx, Access{}, a, u)
	return r.Gained, r.Relation == Wider, r.Relation == Unclear
}

// Always reports whether a condition holds, or denies, in every world; unclear is set if that could not be determined.
// The witness is a world in which it does not.
func (c *Comparer) Always(ctx context.Context, condition expr.Condition, u Universe) (w *Witness, always, unclear bool) {
	r := c.Compare(ctx, Access{Allow: []expr.Condition{nil}}, Access{Allow: []expr.Condition{condition}}, u)
	return r.Lost, r.Relation == Equivalent, r.Relation == Unclear
}

var (
	errBudget  = errors.New("there are too many cases to check")
	errSamples = errors.New("a condition does more than compare fields with values")
	errBroken  = errors.New("a condition does not compile")
)

// twin is a condition in Go that can say the same in CEL.
type twin interface {
	Twin(effect expr.Effect) (source string, kind expr.Kind)
}

// prepare reads both sides and finds the states of all paths.
func (c *Comparer) prepare(ctx context.Context, before, after Access, u Universe) (*search, error) {
	u = u.complete()
	s := &search{ctx: ctx, universe: u, budget: c.Budget, access: [2]Access{before, after}}
	if s.budget == 0 {
		s.budget = DefaultBudget
	}
	s.reader = &reader{cache: c.Cache, syntax: c.syntax, vars: map[string]*node{}, known: u.Known, atoms: map[string]*atom{}}
	for name, shape := range u.variables() {
		s.reader.vars[name] = &node{name: name, shape: shape}
	}
	for i, a := range s.access {
		for _, step := range a.steps() {
			s.sides[i] = append(s.sides[i], rule{s.reader.condition(step.Condition, step.effect(), u), step.Deny})
		}
	}
	if s.reader.failed != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, s.reader.failed)
	}
	for before, now := -1, 0; before != now; {
		before, now = now, 0
		for _, name := range variableNames {
			v := s.reader.vars[name]
			v.mirror()
			now += v.count()
		}
	}
	for _, name := range variableNames {
		s.settle(s.reader.vars[name])
	}
	s.number()
	return s, nil
}

// condition is the formula of a condition with its effect.
func (r *reader) condition(c expr.Condition, effect expr.Effect, u Universe) *formula {
	if c == nil {
		return always
	}
	var parts []*formula
	for _, part := range expr.Parts(c) {
		parts = append(parts, r.part(part, effect, u))
	}
	return join(and, parts...)
}

func (r *reader) part(c expr.Condition, effect expr.Effect, u Universe) *formula {
	switch c := c.(type) {
	case *expr.Program:
		return r.source(c.Source(), c.Kind(), effect, u, c.AimsAt(u.like()))
	case twin:
		if source, kind := c.Twin(effect); source != "" {
			return r.source(source, kind, effect, u, false)
		}
	}
	return &formula{op: leaf, atom: r.other(c, effect)}
}

// source is the formula of an expression. A where of an allow must hold for every version that there is, one of a deny
// for any, and one that fails counts as holding. One that is aimed is about the target.
func (r *reader) source(source string, kind expr.Kind, effect expr.Effect, u Universe, aimed bool) *formula {
	e, issues := r.syntax(source)
	if len(issues) > 0 {
		r.failed = issues
		return never
	}
	if kind != expr.Where {
		return r.formula(e)
	}
	var versions []*formula
	switch {
	case aimed:
		if u.Connects {
			versions = append(versions, r.formula(expr.About(e, "target")))
		}
	case u.OwnKind:
		if u.OldObject != nil {
			versions = append(versions, r.formula(expr.About(e, "oldObject")))
		}
		if u.Object != nil {
			versions = append(versions, r.formula(expr.About(e, "object")))
		}
	}
	switch {
	case effect == expr.Allow:
		if len(versions) == 0 {
			return never
		}
		return join(and, versions...)
	case len(versions) == 0:
		return always
	}
	for i, v := range versions {
		versions[i] = &formula{op: certain, kids: []*formula{v}}
	}
	return join(or, versions...)
}

// other is a condition that is not CEL: an atom that is evaluated as a whole, for what the other conditions look at.
func (r *reader) other(c expr.Condition, effect expr.Effect) *atom {
	a := &atom{text: fmt.Sprintf("%s %p %s", effect, c, c.Text(&expr.Request{}, effect)), number: len(r.order), results: map[string]ternary{}}
	if known := r.atoms[a.text]; known != nil {
		return known
	}
	a.holds = func(ctx context.Context, req *expr.Request, _ expr.Effect, data *expr.Data) (bool, error) {
		return c.Evaluate(ctx, req, effect, data)
	}
	for _, name := range []string{"object", "oldObject"} {
		if v := r.vars[name]; v.shape != nil {
			at := v.sub("metadata").sub("name")
			at.sampled = true
			at.compared()
			a.reads = append(a.reads, at)
		}
	}
	r.atoms[a.text] = a
	r.order = append(r.order, a)
	return a
}
