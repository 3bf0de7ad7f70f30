// Package server tests the API server as a whole, in the process of the tests: requests go in over TLS, and what comes
// of them is looked at from outside. start_test.go has the servers. What tests one function stands beside it, in
// internal/hosts/apiserver.
package server
