// Package managed compiles policy for clusters on which you cannot add a flag, writes it, and compares a cluster with
// it.
package managed
