// Package suggest computes the least rights that cover the recorded requests of a subject (TR-10): verbs, resources,
// namespaces and names, with the conditions under which the subject holds them today. The result is proven: every
// recorded request is decided as before, and nothing is granted that the subject does not hold.
package suggest
