// Package protectedattr decides who may set, replace or remove a protected label or annotation.
//
// It is an engine: a pure function of the compiled protections, the request's identity and membership, and the object
// before and after. An Index is built once per snapshot; a write looks up only the keys that the object itself carries,
// so that a thousand protections cost a write that touches none of them a few hash look-ups and no allocation.
//
// What an object carries for others counts as much as its own metadata, because a controller would otherwise set for a
// user what the user may not set: sites.go is the list of those places.
//
// Everything fails towards refusal: a role that does not exist has no members, a body that cannot be read is refused,
// and an object whose Go type lacks a place where templates should be is refused rather than skipped.
package protectedattr
