// Package policyreview answers the questions of authorization.proviso.dev — who can do this, and can this subject do
// that with this object, which field permissions are there — and refuses roles and bindings that would give away more
// than their writer has.
//
// Place in the request path: behind the storage of our own groups. It asks the same index and the same chain as a
// request does, on the snapshot that is pinned to the review.
package policyreview
