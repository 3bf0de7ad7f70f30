// Package selfclient lets a server call itself: clients of its own API that are created on first use, since the
// loopback configuration is not complete before the server is.
//
// Place in the request path: Context, in the outermost filter, tells the registry which requests are the server's own.
package selfclient
