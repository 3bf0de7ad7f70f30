// Package answer holds a response until its fate is decided.
//
// Place in the request path: every filter that replaces, delays or rewrites responses uses this writer, so only one
// place knows all the ways in which a handler can write.
package answer
