// Package sink is where audit events leave the request path. Router is the audit backend of the server: upstream's
// audit filter, the outermost stage that knows the user, hands it each event, and it
//
//   - encodes the event once for each level that a sink wants, before the server reuses it,
//   - appends it to the spool of each sink (spool.go, record.go) before the response ends, so events of answered
//     requests survive a crash of the server,
//   - passes it to the static backend as if there were no sinks (static.go).
//
// One delivery per sink (delivery.go, post.go) sends batches from its spool until the sink acknowledges them. Nothing
// on the request path waits for a sink, a network or another request's event; it waits only for an append to a local
// file. Events that cannot be kept or delivered are counted (status.go, metrics.go), never dropped silently.
//
// On failure, an event is kept and sent again rather than dropped, sent twice rather than not at all, and dropped and
// counted rather than a request refused. A sink must not give its author a way to reach an address that they could not
// reach otherwise (address.go, target.go). Its URL may hold secrets and appears in no error, status or log.
package sink
