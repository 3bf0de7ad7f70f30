// Package requestctx carries the state of one request, under one key of its context: the policy snapshot, the passes
// from authorization to admission, and notes between stages of admission.
//
// Place in the request path: the outermost filter puts an empty State into the context and pins the policy snapshot;
// the authorization gate fills a slot; the enforcer reads it. A slot that was never filled allows nothing: the zero
// value denies. Notes that were never begun give the strictest answer.
package requestctx
