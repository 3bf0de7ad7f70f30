// Package requestctx carries the pass of a request from authorization to admission.
//
// Place in the request path: the outermost filter puts an empty Holder into the context and pins the policy snapshot;
// the authorization gate fills a slot; the enforcer reads it. Nothing else is in it: what stages of admission tell one
// another is in package notes. A slot that was never filled is not an allowance: the zero value denies.
package requestctx
