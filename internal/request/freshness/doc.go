// Package freshness lets callers ask for policy that is at least as new as they know (TR-14), and tells them how new
// what they wrote is (TR-13).
//
// Place in the request path: the outermost filter keeps what the header asks for; the gate waits for it when it is
// known who asks, before anything is decided; the filter around the handler puts the revision of what was written into
// the response. Reviews ask in their spec, and wait when they are answered.
package freshness
