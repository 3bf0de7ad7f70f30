// Package refusal writes one line of log for every request that is refused.
//
// The line says who, what, at which stage and by which rule, and nothing of the object. It has a verbosity of its own:
// --vmodule=refusal=2 writes it and leaves everything else as it is.
package refusal
