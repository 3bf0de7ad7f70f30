// Package rulecondition makes conditions of policy rules: the attributeRestrictions of a rule, written in Go, and
// together with its `where` and `when` the one condition that a rule compiles to.
//
// The package is pure. What a restriction cannot decide it reports as an error, which the effect of the rule then turns
// into the closed direction.
package rulecondition
