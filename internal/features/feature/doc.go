// Package feature is the contract between a system and its hosts.
//
// A system bundles stages into one thing that can be switched on: its parts of the snapshot, its links of the chain,
// its filters, its checks in admission, the resources it serves, what it does in the background. It is a value, made
// complete by its package. A host holds a list of them and asks each for its part, so that adding a system is one
// package and one line in the list.
package feature
