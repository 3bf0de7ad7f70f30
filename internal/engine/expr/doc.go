// Package expr is the CEL engine of conditional authorization: it compiles the `where` and `when` of a rule, decides
// them as far as the request alone permits, and evaluates the rest once the object is known.
//
// A condition is decided in two steps. Together they always give what one step with all the data would have given
// (CA-3):
//
//	program, issues := compiler.Compile(source, expr.Options{Kind: expr.When}) // once per snapshot
//	finding := program.Decide(request, expr.Allow)                             // when authorizing
//	if finding.Truth() == expr.Unresolved {
//		residual := finding.Residual()           // three words; nothing is parsed again
//		holds, err := residual.Evaluate(ctx, data) // when admitting
//	}
//
// # One program for both steps
//
// The expression is planned once. In the first step every variable that only
// admission knows is bound to CEL's unknown, and each read of one is recorded.
// A result reached without such a read is exact, because the evaluation with
// all the data takes the same steps. If one was read, the condition stays open.
// Two exceptions depend on the effect; see Program.Decide. Unknown is never
// taken for false.
//
// # Failing
//
// An evaluation that fails returns an *EvalError. Its Error() names only the
// class of the failure and may be shown to the caller; its Detail may quote the
// expression and the object, and is for the audit log. What a failure means
// depends on the effect, and the caller decides it (CA-2), except in a where:
// there, a version for which a deny fails counts as a match.
//
// # Reads
//
// A list or watch has no object to evaluate. Implied reports whether the selectors of the request let through only
// objects that meet a where (CA-16). It tries every kind of object that the expression can tell apart; there are
// finitely many.
//
// # Limits
//
// Compiling is bounded by counting (package limits), before anything is compiled: bytes, words,
// nodes, depth, calls, the depth of types and the steps of regular expressions. The bounds depend on the text alone, so
// every replica refuses the same expressions. A Cache compiles a stored text once, when a request needs it.
//
// # Cost
//
// Kubernetes' limits apply: an estimate when the expression is written, a limit
// for every evaluation, and a budget for all conditions of a request. An
// expression that no object can make too expensive is evaluated without tracking its
// cost, at a third of the price; one whose cost grows with the iterations of its loops
// is evaluated by counting them, until the count no longer proves it cheap enough; see
// package cost. Where Kubernetes charges too little or too late, a guard charges
// before the call is made. The first step has its own small budget; what it cannot
// decide within it stays open. Expressions of field permissions are evaluated in the
// same way, and from the same budget.
//
// # Conditions in Go
//
// A Condition need not be CEL. Any implementation of the interface can be joined with All and is decided, bound and
// evaluated in the same way.
//
// # Text
//
// Residual.Text is source for people. It has the known values filled in and parses back to the same meaning, but no
// decision is ever made from it.
//
// The package is pure: no I/O, no clock, no goroutines.
package expr
