// Package etcdbackup is `proviso backup`: backups of the embedded etcd, taken while the server runs and restored while
// it is stopped. An external etcd has its own tools.
package etcdbackup
