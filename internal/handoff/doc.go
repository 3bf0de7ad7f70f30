// Package handoff carries a decision from authorization to admission, inside the context of one request.
//
// Place in the request path: the outermost filter puts an empty Holder into the context and pins the policy snapshot;
// the authorization gate fills a slot; the enforcer empties it. Nothing else reads or writes it. A slot that was never
// filled is not an allowance: the zero Decision denies.
package handoff
