// Package selfclient is how a server asks itself: clients of its own API that are made when they are first used, since
// the loopback configuration is not complete before the server is.
//
// Place in the request path: Context, in the outermost filter, tells the registry which requests are the server's own.
package selfclient
