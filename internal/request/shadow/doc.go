// Package shadow observes what rules that are not enforced would have changed. It keeps counters and the most recent
// flips in memory.
//
// Place in the request path: none. The Recorder is an observer with two calls, one after the gate has decided and one
// after the enforcer has (TR-6). Neither the gate nor the enforcer knows about it, and it changes nothing.
package shadow
