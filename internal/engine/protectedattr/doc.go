// Package protectedattr decides who may set, replace or remove a protected label or annotation.
//
// It is an engine: a pure function of the compiled protections, the request's identity and membership, and the object
// before and after. An Index is built once per snapshot; a write looks up only the keys that the object itself carries.
// So even with a thousand protections, a write that touches none of them costs a few hash look-ups and no allocation.
//
// Metadata that an object carries for other objects, such as a template, counts as much as its own. Otherwise a
// controller would set for users what they may not set themselves. sites.go lists those places.
//
// Every failure refuses: a role that does not exist has no members, a body that cannot be read is refused, and an
// object whose Go type lacks a place where a template should be is refused, not skipped.
package protectedattr
