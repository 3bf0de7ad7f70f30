// Package requestctx carries what travels with one request, under one key of its context: the policy snapshot, the
// passes from authorization to admission, and what stages of admission tell one another.
//
// Place in the request path: the outermost filter puts an empty State into the context and pins the policy snapshot;
// the authorization gate fills a slot; the enforcer reads it. A slot that was never filled is not an allowance: the
// zero value denies. Notes that have not begun give the strictest answer.
package requestctx
