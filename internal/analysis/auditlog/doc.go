// Package auditlog reads recorded requests from an audit log, or from what an audit sink received. Each line is one
// event or one list of events in JSON; the file can be compressed with gzip.
//
// Place in the request path: none. Read returns each request once, however many of its stages were recorded, as the
// authorizers saw it: Request.Attributes is what they were asked. It guesses nothing. The Tally counts lines that are
// not events, events without a user, and stages before the last one; it names the first lines that cannot be read. What
// the audit level left out (a body, say) is absent from the request; code that needs it counts that itself.
package auditlog
