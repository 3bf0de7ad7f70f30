// Package limits bounds the size of an expression before it reaches the parser and the type checker, by counting alone:
// words and brackets of its source, parts and calls of its syntax, steps of its regular expressions. All limits on the
// size of an expression are here; package cost has the limits on the cost of an evaluation.
package limits
