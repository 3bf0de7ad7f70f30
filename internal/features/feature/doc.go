// Package feature is the contract between a system and its hosts.
//
// A system bundles stages into one unit that can be enabled: its parts of the snapshot, its links of the chain, its
// filters, its checks in admission, the resources it serves, what it does in the background. It is a value that its
// package fills in. A host holds a list of systems and asks each for its part, so adding a system takes one package and
// one line in the list.
package feature
