// Package timekeeper knows whether the clock of a server can be trusted. Otherwise a clock that is wrong, or was set,
// would decide when rights begin and end.
//
// A clock is in doubt if it is far behind an instant that was seen before, which is kept in etcd across restarts, or if
// it differs from the clock of another replica. It cannot be known which of two replicas is right, so both are in
// doubt. A server in doubt keeps serving; time-limited bindings and grants allow nothing, and their deny rules deny. It
// fails closed: a server is in doubt until it has read the kept instant and has asked the other replicas.
package timekeeper
