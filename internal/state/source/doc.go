// Package source has the three sources of a policy snapshot: informers of the server itself, a cluster elsewhere, and
// files.
//
// Place in the request path: none. What the sources deliver becomes a snapshot, and requests see nothing else. A source
// that cannot be read is not an empty source: on opening, that is an error; later, the readiness check (Health) fails.
package source
