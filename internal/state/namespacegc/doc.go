// Package namespacegc deletes policy objects that outlive their namespace.
//
// Place in the request path: none; it runs in the background. Until it has deleted an object, the snapshot decides what
// of it still counts.
package namespacegc
