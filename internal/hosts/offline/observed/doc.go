// Package observed finds out what subjects were seen doing, from an audit log or from the requests of a running server
// (live.go): which requests succeeded (doing.go), what they changed (bodies.go, changes.go), and what a suggestion of
// least rights starts from (input.go).
package observed
