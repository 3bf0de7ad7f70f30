// Package etcdclient connects to etcd beside the storage of an API server, and as that does.
package etcdclient
