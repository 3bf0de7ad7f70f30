// Package auditlog reads recorded requests: an audit log, or what a sink was sent. One event, or one
// list of events, is one line of JSON; the whole can be compressed with gzip.
//
// Place in the request path: none. Read hands out each request once, however many stages of it were recorded, as the
// authorizers saw it: Request.Attributes is what they were asked. It guesses nothing. A line that is not an event, an
// event without a user, a stage before the end: each is counted in the Tally, and the first lines that cannot be read
// are named. What a level leaves out (a body, say) is absent from the request; code that needs it counts that in turn.
package auditlog
