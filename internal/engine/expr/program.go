package expr

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/expr/cost"
)

// Program is a compiled expression: a Condition. It is immutable and safe for
// concurrent use.
type Program struct {
	compiler   *Compiler
	source     string
	kind       Kind
	apiVersion string
	full       steps    // right for every input
	quick      *bounded // faster, for inputs within the bounds; nil if there is none
	counted    *counted // faster, for objects whose lists are not too long; nil if there is none
	bounds     cost.Bounds
	uses       usage
	written    ast.Expr // a where before its macros are expanded: reads need it (CA-16)
	settled    partial  // what is known without the request, if it does not use the request
	aims       connect.Set
}

// Aimed returns the same where for a rule that names connections: on these,
// its resource is the target. It is still false on all others.
func (p *Program) Aimed(at connect.Set) *Program {
	if p.kind != Where || at == p.aims {
		return p
	}
	aimed := *p
	aimed.aims = at
	return &aimed
}

// AimsAt reports whether the where is about the target of a request.
func (p *Program) AimsAt(req *Request) bool {
	return p.aims != 0 && req != nil && p.aims.Has(req.APIGroup, req.Resource, connect.Subresource(req.Verb, req.Subresource))
}

// partial is the result of evaluating with the later variables unknown.
type partial struct {
	truth   Truth // Unresolved if it depends on something unknown
	err     error // with Failed
	touched bool  // something unknown was read on the way
}

// Source returns the expression as it was written.
func (p *Program) Source() string { return p.source }

// Kind returns the dialect.
func (p *Program) Kind() Kind { return p.kind }

// APIVersion returns the version of the group that the expression is written for.
func (p *Program) APIVersion() string { return p.apiVersion }

// Type implements Condition.
func (p *Program) Type() string { return TypeCEL }

// Decide implements Condition. It costs nothing for an expression that does
// not mention the request.
//
// A truth that was reached without reading anything unknown is exact: the
// evaluation with all the data would take the very same steps. Where something
// unknown was read and skipped over (`x && false`, `x || true`), the skipped part
// could still fail, because its cost counts; see whenFinding and whereFinding for
// what can be concluded nevertheless.
func (p *Program) Decide(req *Request, effect Effect) Finding {
	if p.kind.ofField() {
		return DecidedError(errNoCondition)
	}
	r := p.settled
	if p.uses.request {
		r = p.partially(req)
	}
	if p.kind == Where {
		return p.whereFinding(r, req, effect)
	}
	return p.whenFinding(r, req, effect)
}

func (p *Program) whenFinding(r partial, req *Request, effect Effect) Finding {
	switch {
	case r.truth == Unresolved:
		return Undecided(p, req, effect)
	case !r.touched:
		return Finding{truth: r.truth, err: r.err}
	case r.truth == False && effect == Allow:
		// x && false: false, or fails, and a failing Allow is ignored.
		return Decided(false)
	case r.truth == True && (p.bounds.Always || p.bounds.Second && req.isSmall()):
		// x || true: x cannot exceed the cost limit, and its other failures
		// are absorbed by the or.
		return Decided(true)
	default:
		return Undecided(p, req, effect)
	}
}

// settle computes, when the expression is compiled, what Decide would return for every request.
func (p *Program) settle() { p.settled = p.partially(nil) }

// IsOpen reports whether a condition does not use the request and needs the
// object: every request leaves it open, and it is evaluated without one. Only
// its text needs the request. Nearly all conditions are of this kind, so
// deciding them does not require reading the request. An aimed one depends on
// the target of the request.
func IsOpen(c Condition) bool {
	switch c := c.(type) {
	case *Program:
		return !c.uses.request && c.aims == 0 && !c.kind.ofField() && c.settled.truth == Unresolved
	case all:
		for _, part := range c {
			if !IsOpen(part) {
				return false
			}
		}
		return true
	}
	return false
}

// isBrief reports whether the first step is short without tracking its cost.
func (p *Program) isBrief(req *Request) bool {
	switch {
	case p.quick == nil:
		return false
	case p.bounds.Cost <= firstStepLimit:
		return p.bounds.Always || p.bounds.First && (!p.uses.request || req.isSmall())
	}
	return p.bounds.Brief && (!p.uses.request || req.isTiny())
}

// partially evaluates with the later variables unknown. It cannot be cancelled, so it is kept short: an expression that
// costs more stays open, and is evaluated in admission.
func (p *Program) partially(req *Request) partial {
	a := &activation{req: req, limit: firstStepLimit}
	s := p.full
	if p.isBrief(req) {
		s = p.quick
	} else if a.limit = req.firstStep(); a.limit == 0 {
		return partial{touched: true}
	}
	out, cost, err := s.eval(nil, a) //nolint:staticcheck // see above
	if a.meter != nil {
		req.spend(cost)
	}
	r := partial{touched: a.touched}
	switch {
	case err != nil && a.limit < p.compiler.callLimit && isCostError(err):
		r.touched = true
		r.truth, r.err = Failed, classify(nil, err, nil) //nolint:staticcheck // the first step is short and cannot be cancelled
	case out == types.True:
		r.truth = True
	case out == types.False:
		r.truth = False
	case types.IsUnknown(out):
		r.truth = Unresolved
	default:
		r.truth, r.err = Failed, notBool(out)
	}
	return r
}
