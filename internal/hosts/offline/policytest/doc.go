// Package policytest reads and runs policy tests: each case is one request with the expected decision. The engine of
// the server decides it on policy from files. The package reports and counts; it prints nothing.
package policytest
