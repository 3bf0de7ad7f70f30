// Package freshness lets callers ask for policy that is at least as recent as a revision they name (TR-14), and tells
// them the revision of what they wrote (TR-13).
//
// Place in the request path: the outermost filter stores the revision that the header asks for; the gate waits for it
// once the caller is known, before anything is decided; the filter around the handler puts the revision of what was
// written into the response. Reviews ask in their spec, and wait when they are answered.
package freshness
