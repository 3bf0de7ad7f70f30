// Package namespacegc sees to it that nothing outlives its namespace.
//
// Place in the request path: none; it runs in the background. Until it has come to an object, the snapshot knows what
// of it counts.
package namespacegc
