package authorize

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
)

// A condition that fails has failed closed: a deny applies, an allow does not. That it failed is said in audit and in
// metrics wherever it happens, by the ID of the condition and the class of the failure. What the expression or the
// object holds is said nowhere: a reader of the audit log may not be allowed to read the object.

// AnnotationFailure is the audit annotation of a condition that failed before there was an object.
const AnnotationFailure = "authorization.proviso.dev/condition-failure"

// failed is the failure of a condition that needed no object, or nil if it did not fail.
func failed(c *ruleCondition, o expr.Finding) error {
	if o.Err() == nil {
		return nil
	}
	return fmt.Errorf("condition %q: %w", c.GetID(), o.Err())
}

// SetError is a set of conditions that cannot be read. It has failed closed, which is a decision: a 403 and no error of
// the server's (CA-1).
type SetError struct{ Err error }

func (e *SetError) Error() string { return e.Err.Error() }

// Unwrap is what is wrong with the set.
func (e *SetError) Unwrap() error { return e.Err }

// FailedClosed tells conditions that failed, or could not be read, from an authorizer that did not answer.
func FailedClosed(err error) bool {
	if err == nil {
		return false // without looking, which would allocate
	}
	var evaluation *expr.EvalError
	var set *SetError
	return errors.As(err, &evaluation) || errors.As(err, &set)
}

// withFailures adds the failures that conditions took for a match, as the where of a deny does.
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

// report says in audit and metrics that a condition failed when the request was authorized.
func (v Partial) report(ctx context.Context) {
	if v.Failed != nil {
		audit.AddAuditAnnotation(ctx, AnnotationFailure, v.Failed.Error())
		countFailure(v.Authorizer)
	}
}
