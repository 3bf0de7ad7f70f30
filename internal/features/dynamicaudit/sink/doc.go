// Package sink is where audit events leave the request path. Router is the audit backend of the server: upstream's
// audit filter, the outermost stage that knows the user, hands it each event, and it
//
//   - encodes the event once for each level that a sink wants, before the server reuses it,
//   - appends it to the spool of each sink (spool.go, record.go) before the response ends, so that what a client has an
//     answer for survives the death of the server,
//   - hands it to the static backend as if there were no sinks (static.go).
//
// From the spools, one delivery per sink (delivery.go, post.go) sends batches until the sink acknowledges them. Nothing
// on the request path waits for a sink, a network or another request's event; the only thing it waits for is an append
// to a local file. What cannot be kept or delivered is counted (status.go, metrics.go), never silent.
//
// Failing means: an event is kept and sent again rather than given up, sent twice rather than not at all, given up and
// counted rather than a request refused. A sink must not be a way to reach what its author cannot (address.go,
// target.go), and its URL, which may hold secrets, appears in no error, status or log.
package sink
