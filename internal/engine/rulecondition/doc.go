// Package rulecondition compiles the restrictions of a policy rule to one condition: its attributeRestrictions, which
// are implemented in Go, joined with its `where` and `when`.
//
// The package is pure. A restriction that cannot decide returns an error. The effect of the rule then makes it fail
// closed.
package rulecondition
