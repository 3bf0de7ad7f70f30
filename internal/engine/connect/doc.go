// Package connect knows the requests that open a connection into a pod, a service or a node: exec, attach,
// port-forward and proxy. They give power over what they connect to whichever HTTP method they use, and the proxies
// spell the name of their target in several ways. Everything that decides about a request sees them through this
// package, so that a rule cannot be got round by another method or another spelling.
package connect
