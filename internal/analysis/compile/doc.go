// Package compile compiles Policy to what a stock API server has: RBAC and ValidatingAdmissionPolicies (MC-1).
//
// An allow rule becomes an RBAC grant. If it has a condition, an admission policy enforces it for the same subjects:
// they pass if the condition is met, if another rule of Policy allows the request, or if RBAC grants them every verb of
// the resource. A deny rule becomes an admission policy that refuses. The rule index itself says, resource by resource,
// what a rule matches, so names, negations and wildcards mean the same here as there.
//
// Each rule gets a verdict. A rule that cannot be expressed is never weakened: it is an error, or is left out if the
// caller accepts that.
package compile
