// Package discovery knows what is served at the moment, and by whom: what this process serves by itself, what custom
// resource definitions add, and what other servers say of themselves.
//
// Place in the request path: OnlyKnown, behind authorization, turns away what the request's snapshot does not know by
// its kind; the gate asks Local before it lets anything conditional pass.
package discovery
