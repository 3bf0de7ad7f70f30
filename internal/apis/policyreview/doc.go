// Package policyreview answers the reviews of authorization.proviso.dev (who can do this, can this subject do that with
// this object, which field permissions exist) and refuses roles and bindings that would grant more than their writer
// holds.
//
// Place in the request path: behind the storage of our own groups. It asks the same index and the same chain as a
// request does, on the snapshot pinned to the review.
package policyreview
