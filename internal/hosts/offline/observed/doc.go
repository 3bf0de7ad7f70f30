// Package observed finds out what subjects have done, from an audit log or from the requests of a running server
// (live.go): which requests succeeded (doing.go), what they changed (bodies.go, changes.go), and the input of a
// suggestion of least rights (input.go).
package observed
