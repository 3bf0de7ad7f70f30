// Package source has the three sources of a policy snapshot: informers of the server itself, a cluster elsewhere, and
// files.
//
// Place in the request path: none. What the sources deliver becomes a snapshot, and requests see nothing else. A source
// that cannot be read is not an empty source: it is an error when it is opened, and a failing readiness check (Health)
// when that comes later.
package source
