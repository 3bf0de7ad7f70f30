// Package etcdclient connects to etcd beside the storage of an API server, in the same way as that storage.
package etcdclient
