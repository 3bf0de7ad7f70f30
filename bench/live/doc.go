// Package live builds and runs real servers in processes of their own, and loads them over HTTPS: `proviso serve` with
// its embedded etcd, and the stock kube-apiserver from the same modules with an etcd beside it. Both get the same
// certificates, listen on loopback only, and end with the context they were started with.
package live
