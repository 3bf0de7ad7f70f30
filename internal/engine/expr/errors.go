package expr

import (
	"context"
	"errors"
	"strings"

	"github.com/google/cel-go/interpreter"
)

// Reason classifies a failure for metrics. It never quotes the expression or the object.
type Reason string

const (
	// ReasonExpression: the expression itself failed on this data, such as a
	// missing field.
	ReasonExpression Reason = "ExpressionFailed"
	// ReasonCost: the evaluation would have cost more than is allowed.
	ReasonCost Reason = "CostExceeded"
	// ReasonCancelled: the request was cancelled or timed out.
	ReasonCancelled Reason = "Cancelled"
	// ReasonData: the object was not available in the version that the condition is written for, or the namespace was
	// not available.
	ReasonData Reason = "DataUnavailable"
	// ReasonType: the result of the expression is not a boolean.
	ReasonType Reason = "NotBoolean"
	// ReasonUncompiled: the condition is stored and does not compile.
	ReasonUncompiled Reason = "NotCompiled"
	// ReasonInternal: anything else; always a bug.
	ReasonInternal Reason = "Internal"
)

// EvalError is every error of this package that comes from deciding or
// evaluating. Error() is safe to show to the caller of the API: it contains
// only the class of the failure. Detail may quote the expression and the object
// and belongs only in the audit log (CA-10).
type EvalError struct {
	Reason Reason
	Detail string
	cause  error
}

func (e *EvalError) Error() string {
	switch e.Reason {
	case ReasonExpression:
		return "condition fails: it could not be evaluated for this object"
	case ReasonCost:
		return "condition fails: evaluating it costs more than is allowed"
	case ReasonCancelled:
		return "condition fails: the request was cancelled"
	case ReasonData:
		return "condition fails: the object is not available in the version it is written for"
	case ReasonType:
		return "condition fails: it does not give true or false"
	case ReasonUncompiled:
		return "condition fails: it does not compile"
	default:
		return "condition fails: internal error"
	}
}

// Unwrap returns the cause, so that errors.Is(err, context.Canceled) works.
func (e *EvalError) Unwrap() error { return e.cause }

// isCostError reports whether an evaluation was ended because it cost too much.
func isCostError(err error) bool {
	var cancelled interpreter.EvalCancelledError
	return errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded
}

// classify turns an error of cel-go into ours. dataErr is the error of loading a variable during this evaluation, if it
// failed.
func classify(ctx context.Context, err, dataErr error) *EvalError {
	switch {
	case isCostError(err):
		return &EvalError{Reason: ReasonCost, Detail: err.Error(), cause: err}
	case errors.Is(err, interpreter.InterruptError{}), ctx != nil && ctx.Err() != nil:
		return &EvalError{Reason: ReasonCancelled, Detail: err.Error(), cause: context.Cause(ctx)}
	case dataErr != nil:
		return &EvalError{Reason: ReasonData, Detail: dataErr.Error(), cause: dataErr}
	case strings.HasPrefix(err.Error(), "internal error"):
		return &EvalError{Reason: ReasonInternal, Detail: err.Error(), cause: err}
	default:
		return &EvalError{Reason: ReasonExpression, Detail: err.Error(), cause: err}
	}
}
