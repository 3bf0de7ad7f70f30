// Package buildinfo says which Proviso this is: its version, the commit it was built from, and the Kubernetes and Go
// inside.
package buildinfo
