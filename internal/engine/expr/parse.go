package expr

import (
	"errors"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"

	"proviso.dev/proviso/internal/engine/expr/limits"
)

// MaxLength is the largest expression, and the largest residual text, in bytes.
const MaxLength = limits.MaxBytes

// parse reads an expression without expanding its macros, if it is within the
// limits.
func (c *Compiler) parse(source string) (ast.Expr, Issues) {
	if err := limits.CheckSource(source); err != nil {
		return nil, tooLarge(err)
	}
	parsed, iss := c.plain.Parse(source)
	if failedIssues(iss) {
		return nil, fromCEL(iss)
	}
	e := parsed.NativeRep().Expr()
	err := limits.CheckSyntax(e)
	var pattern *limits.PatternError
	switch {
	case errors.As(err, &pattern):
		at := parsed.NativeRep().SourceInfo().GetStartLocation(pattern.ID)
		return nil, Issues{{Line: at.Line(), Column: at.Column() + 1, Message: pattern.Error()}}
	case err != nil:
		return nil, tooLarge(err)
	}
	return e, nil
}

func tooLarge(err error) Issues {
	return wholeIssue("expression is too complex: %v; split it into several rules or simplify it", err)
}

// failedIssues is issues.Err() != nil without formatting every issue first.
func failedIssues(iss *cel.Issues) bool { return iss != nil && len(iss.Errors()) > 0 }
