// Package buildinfo describes this build of Proviso: its version, the commit it was built from, and its Kubernetes and
// Go versions.
package buildinfo
