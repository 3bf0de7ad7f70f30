// Package cost estimates what an expression costs before it runs: whether it can ever stay within the limits, and when
// it certainly does (cost.go); and how large a value is (deep.go). Package expr counts what an expression spends while
// it runs.
package cost
