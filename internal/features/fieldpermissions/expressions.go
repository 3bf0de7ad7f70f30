package fieldpermissions

import (
	"context"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// expressions compiles the expressions of declarations. It is safe for concurrent use.
type expressions struct {
	cache *expr.Cache
	// stored relaxes the check for what is stored already: it may use libraries of a later version. Such an expression
	// is compiled when it is needed, and not when the table is made.
	stored bool
}

var _ fieldperm.Expressions = (*expressions)(nil)

// newExpressions makes the compiler for expressions that are being written.
func newExpressions(cache *expr.Cache) *expressions { return &expressions{cache: cache} }

// Stored is the compiler for expressions that were accepted when they were written.
func (c *expressions) Stored() *expressions { return &expressions{cache: c.cache, stored: true} }

// When implements fieldperm.Expressions.
func (c *expressions) When(expression string) (fieldperm.When, error) {
	program, err := c.compile(expression, expr.Exclusive)
	if err != nil {
		return nil, err
	}
	return when{program}, nil
}

// Parameter implements fieldperm.Expressions.
func (c *expressions) Parameter(expression string) (fieldperm.Parameterizer, error) {
	program, err := c.compile(expression, expr.Parameter)
	if err != nil {
		return nil, err
	}
	return parameter{program}, nil
}

// source gives the program when it is needed.
type source func() (*expr.Program, expr.Issues)

func (c *expressions) compile(expression string, kind expr.Kind) (source, error) {
	if c.stored {
		d := c.cache.Stored(expression, kind, "")
		if issues, known := d.Known(); known && len(issues) > 0 {
			return nil, issues
		}
		return d.Program, nil
	}
	program, issues := c.cache.Compiler().Compile(expression, expr.Options{Kind: kind})
	if len(issues) > 0 {
		return nil, issues
	}
	return func() (*expr.Program, expr.Issues) { return program, nil }, nil
}

type when struct{ program source }

// Holds implements fieldperm.When.
func (w when) Holds(ctx context.Context, change fieldperm.Change) (bool, error) {
	program, issues := w.program()
	if len(issues) > 0 {
		return false, issues
	}
	return program.EvaluateExclusive(ctx, expr.FieldValues{Key: change.Key, Self: change.Self, OldSelf: change.OldSelf})
}

type parameter struct{ program source }

// Parameter implements fieldperm.Parameterizer.
func (p parameter) Parameter(ctx context.Context, key string, value, element any) (string, error) {
	program, issues := p.program()
	if len(issues) > 0 {
		return "", issues
	}
	return program.EvaluateParameter(ctx, expr.FieldValues{Key: key, Value: value, Element: element})
}
