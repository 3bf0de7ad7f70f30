// Package compile turns Policy into what a stock API server has: RBAC, and ValidatingAdmissionPolicies (MC-1).
//
// A rule that allows becomes a grant of RBAC. If it has a condition, a policy holds the same subjects to it: they
// pass if the condition is met, if another rule of Policy allows the request, or if RBAC gives them every verb of the
// resource. A rule that denies becomes a policy that refuses. What a rule matches is asked of the rule index itself,
// resource by resource, so that names, negations and wildcards mean here what they mean there.
//
// Each rule gets a verdict. What cannot be had is never weakened: it is an error, or left out if the caller accepts it.
package compile
