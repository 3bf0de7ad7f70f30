// Package etcdbackup is `proviso backup`: backups of the embedded etcd, made while the server runs, and restored
// while it does not. An external etcd has tools of its own.
package etcdbackup
