// Package answer holds a response until it is decided what becomes of it.
//
// Place in the request path: every filter that replaces, delays or rewrites responses does it with this writer, so
// there is one place that knows all the ways in which a handler can write.
package answer
