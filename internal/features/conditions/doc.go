// Package conditions is conditional authorization: conditions that are met by the object of a request, from the chain
// to admission, and access reviews that show them. What honours conditions is the gate and the enforcer, which are
// there whichever system is on; this system lets conditions come that far.
package conditions
