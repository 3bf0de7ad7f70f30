// Package denial counts the requests that are refused, writes one line of log for each, and tells the caller which
// command says more. It stands at both places where a request is refused: behind the gate, and in the enforcer.
//
// The line says who, what, at which stage and by which rule, and nothing of the object. It has a verbosity of its own:
// --vmodule=refusal=2 writes it and leaves everything else as it is.
package denial
