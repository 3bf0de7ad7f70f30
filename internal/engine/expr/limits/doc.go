// Package limits bounds what an expression may be before it reaches the parser and the type checker, by counting alone:
// words and brackets of its source, parts and calls of its syntax, steps of its regular expressions. All numbers that
// bound the size of an expression are here; what an evaluation may cost is package cost's.
package limits
