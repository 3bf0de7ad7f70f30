// Package localetcd runs etcd inside the server's process, for a server that is not given an etcd.
//
// No other user can reach it: it listens on one unix socket in a directory that only its owner can enter, and not on a
// port. Where a unix socket is impossible (its path would be too long, or the file system does not support it) it
// listens on a free port of the loopback interface and requires a client certificate. It has no peer listener, since it
// always is the only member.
//
// An acknowledged write is on disk: whenever the process is killed, it is there at the next start.
package localetcd
