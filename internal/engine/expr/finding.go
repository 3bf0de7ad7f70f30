package expr

import "context"

// Truth is what is known about a condition before the object is known. The zero value is Unresolved, so a forgotten
// decision can never be read as True.
type Truth uint8

const (
	// Unresolved means that the condition depends on data that only admission
	// has; the Finding carries a Residual.
	Unresolved Truth = iota
	// True: the condition holds for every object.
	True
	// False: the condition holds for no object. For an Allow this includes
	// conditions that could still fail, because a failing Allow is ignored.
	False
	// Failed: the condition fails for every object.
	Failed
)

// String returns a name for logs and tests.
func (v Truth) String() string {
	switch v {
	case True:
		return "True"
	case False:
		return "False"
	case Failed:
		return "Failed"
	default:
		return "Unresolved"
	}
}

// Finding is the result of deciding a condition with the request alone. It is
// exactly one of True, False, Failed and Unresolved; there is deliberately no
// way to read it as a boolean.
type Finding struct {
	truth    Truth
	err      error
	residual Residual
}

// Decided returns a finding for a condition that holds, or does not hold,
// whatever the object.
func Decided(holds bool) Finding {
	if holds {
		return Finding{truth: True}
	}
	return Finding{truth: False}
}

// DecidedError returns a finding for a condition that fails whatever the
// object. A nil error is replaced by one: a failure must never look like success.
func DecidedError(err error) Finding {
	if err == nil {
		err = &EvalError{Reason: ReasonInternal, Detail: "condition failed without a reason"}
	}
	return Finding{truth: Failed, err: err}
}

// Undecided returns a finding for a condition that needs the object.
func Undecided(c Condition, req *Request, effect Effect) Finding {
	return Finding{truth: Unresolved, residual: Residual{cond: c, req: req, effect: effect}}
}

// Truth returns which of the four the finding is.
func (o Finding) Truth() Truth { return o.truth }

// Err is non-nil exactly when the truth is Failed, or when a `where` of a
// Deny is True because it fails for every object.
func (o Finding) Err() error { return o.err }

// Residual returns what is left to evaluate. Unless the truth is Unresolved, it is the zero Residual, whose evaluation
// fails.
func (o Finding) Residual() Residual { return o.residual }

// Residual is a condition with all known data bound to it. It is a small value: binding copies three words and parses
// nothing (CA-13). It is immutable and may be evaluated repeatedly and concurrently with different Data.
type Residual struct {
	cond   Condition
	req    *Request
	effect Effect
}

// IsZero reports whether the residual holds no condition.
func (r Residual) IsZero() bool { return r.cond == nil }

// Effect returns the effect that the condition was decided for.
func (r Residual) Effect() Effect { return r.effect }

// Condition returns the condition that was bound.
func (r Residual) Condition() Condition { return r.cond }

// Request returns what was known when the condition was decided.
func (r Residual) Request() *Request { return r.req }

// Type returns the condition type for reviews, such as TypeCEL.
func (r Residual) Type() string {
	if r.cond == nil {
		return ""
	}
	return r.cond.Type()
}

// Evaluate decides the condition with the data of admission. The result is
// meaningful only when the error is nil.
func (r Residual) Evaluate(ctx context.Context, data *Data) (bool, error) {
	if r.cond == nil {
		return false, &EvalError{Reason: ReasonInternal, Detail: "no condition to evaluate"}
	}
	return r.cond.Evaluate(ctx, r.req, r.effect, data)
}

// Text returns the residual as text for people, at most MaxLength bytes. For CEL conditions it is source that parses
// back to the same meaning. It is not cheap, and no decision is ever made from it.
func (r Residual) Text() string {
	if r.cond == nil {
		return ""
	}
	return r.cond.Text(r.req, r.effect)
}
