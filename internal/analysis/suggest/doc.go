// Package suggest makes the least rights that cover the requests of a subject (TR-10): verbs, resources,
// namespaces and names, with the conditions under which they are held today. What it makes is proven: every request
// that was seen is decided as before, and nothing is granted that is not held.
package suggest
