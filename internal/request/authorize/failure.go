package authorize

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
)

// A condition that fails has failed closed: a deny applies, an allow does not. Audit and metrics always record the
// failure, by the ID of the condition and the class of the failure. They never quote the expression or the object: a
// reader of the audit log may not be allowed to read the object.

// AnnotationFailure is the audit annotation for a condition that failed before there was an object.
const AnnotationFailure = "authorization.proviso.dev/condition-failure"

// failed is the failure of a condition that needed no object, or nil if it did not fail.
func failed(c *ruleCondition, o expr.Finding) error {
	if o.Err() == nil {
		return nil
	}
	return fmt.Errorf("condition %q: %w", c.GetID(), o.Err())
}

// SetError is a set of conditions that cannot be read. It has failed closed, which is a decision: a 403, not an error
// of the server (CA-1).
type SetError struct{ Err error }

func (e *SetError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the set.
func (e *SetError) Unwrap() error { return e.Err }

// FailedClosed reports whether an error comes from conditions that failed or could not be read, and not from an
// authorizer that did not answer.
func FailedClosed(err error) bool {
	if err == nil {
		return false // without looking, which would allocate
	}
	var evaluation *expr.EvalError
	var set *SetError
	return errors.As(err, &evaluation) || errors.As(err, &set)
}

// withFailures adds the failures that counted as a match, as in the where of a deny.
func withFailures(err error, data authorizer.ConditionsData) error {
	f, ok := data.(Facts)
	if !ok {
		return err
	}
	for _, e := range f.Expr().Failures() {
		err = errors.Join(err, e)
	}
	return err
}

// report records in audit and metrics that a condition failed when the request was authorized.
func (v Partial) report(ctx context.Context) {
	if v.Failed != nil {
		audit.AddAuditAnnotation(ctx, AnnotationFailure, v.Failed.Error())
		countFailure(v.Authorizer)
	}
}
