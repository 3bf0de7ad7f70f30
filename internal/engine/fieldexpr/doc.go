// Package fieldexpr compiles the CEL of field permissions: exclusiveWhen over self and oldSelf, and parameters over
// key, value and element.
//
// It is the Expressions of fieldperm, which needs no CEL of its own, and adds nothing to what package expr does for
// every expression: the same limits, the same cost, the same budget, and the end of the request. Whatever fails — to
// compile, to evaluate, to stay within its cost, to be of the right type — is an error, which fieldperm takes as the
// closed answer: exclusive, and not covered.
package fieldexpr
