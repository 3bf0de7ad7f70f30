// Package discovery knows what is served at the moment, and by whom: what this process serves itself, what custom
// resource definitions add, and what other servers report.
//
// Place in the request path: OnlyKnown, behind authorization, rejects requests for kinds that their snapshot does not
// know; the gate asks Local before it lets anything conditional pass.
package discovery
