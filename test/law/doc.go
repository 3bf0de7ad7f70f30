// Package law tries laws: sentences about the product that hold for every input. A law is a test that draws its inputs
// from a seed; every day it is tried on the same few hundred, and `make fuzz` tries it on new ones for as long as it is
// told to. docs/explanation/laws.md lists the laws and where each is proven.
//
// The tests of this package are the law that concerns most packages at once: policies, chain, request and object
// decided in two steps, through the gate and the enforcer, give what one step with everything known gives (CA-3).
package law
