// Package policytest reads policy tests and runs them: each case is one request, which the engine of the server decides
// on files, and what is expected of the decision. It reports and counts; it prints nothing.
package policytest
