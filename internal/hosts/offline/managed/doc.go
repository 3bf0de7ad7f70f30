// Package managed compiles policy for clusters whose API server flags cannot be changed, writes it, and compares a
// cluster with it.
package managed
