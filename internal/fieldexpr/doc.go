// Package fieldexpr compiles the CEL of field permissions: exclusiveWhen over self and oldSelf, and parameters over key, value
// and element.
//
// It is the Expressions of fieldperm, which needs no CEL of its own. Expressions are compiled once per table. Whatever fails
// — to compile, to evaluate, to stay within its cost, to be of the right type — is an error, which fieldperm takes as the
// closed answer: exclusive, and not covered.
package fieldexpr
