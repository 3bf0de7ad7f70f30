// Package timekeeper knows whether the clock of a server can be trusted. What begins or ends would otherwise begin and
// end with a clock that is set, or that is wrong.
//
// Two things speak against a clock: it is far behind an instant that was seen before, which is kept in etcd across
// restarts, or it differs from that of another replica. Who of two replicas is right cannot be known, so both are in
// doubt. A server in doubt goes on serving; rights that begin or end allow nothing, and deny. It fails closed: before a
// server has read what is kept, and has asked the others, it is in doubt.
package timekeeper
