// Package localetcd runs etcd inside the server's process, for a server that is given no etcd of its own.
//
// Nobody else can reach it: it listens on one unix socket in a directory that only its owner can enter, and on no port.
// Where a unix socket is impossible (its path would be too long, or the file system has none) it listens on a free port
// of the loopback interface and demands a client certificate instead. It has no peer listener at all, since it is and
// stays the only member.
//
// An acknowledged write is on disk: whenever the process is killed, the next start has it.
package localetcd
