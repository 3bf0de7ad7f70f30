// Package cost estimates what an expression costs before it runs: whether it can ever stay within the limits, and when
// it certainly does (cost.go); and how much there is to see in a value (deep.go). What is spent while an expression
// runs is counted by package expr.
package cost
