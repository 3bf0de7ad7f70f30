// Package connect knows the requests that open a connection into a pod, a service or a node: exec, attach, port-forward
// and proxy. They give power over their target whichever HTTP method they use, and the proxies spell the name of the
// target in several ways. All code that decides requests sees them through this package, so a rule cannot be evaded
// with another method or another spelling.
package connect
