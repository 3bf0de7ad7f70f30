// Package statuswriter writes what a snapshot says about an object into the object's status.
//
// Place in the request path: none; it runs in the background.
package statuswriter
