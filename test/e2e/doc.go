// Package e2e tests the built binary as a user runs it: real processes, its own kubectl, real certificates, signals.
//
// The binary is taken from PROVISO_BIN; `make e2e` builds it and sets that.
package e2e
