// Package denial counts refused requests, writes one log line for each, and tells the caller which command explains
// more. It runs at both places where a request is refused: behind the gate, and in the enforcer.
//
// The line says who, what, at which stage and by which rule, and nothing about the object. It has its own verbosity:
// --vmodule=refusal=2 enables it and changes nothing else.
package denial
