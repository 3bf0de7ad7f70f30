// Command bench runs Proviso's engines and their peers on the same work in the same run and prints how they compare:
//
//	bench <name> n=<size> proviso=<median> <peer>=<median> ratio=<peer/proviso> spread=<%>
//
// Rounds of both sides alternate, so that what disturbs one disturbs the other. Times are those that the processor has worked
// for the process, which a busy machine changes little. Garbage is collected between the turns and not counted, unless the heap is
// too large for that, since whether a collection falls into a turn is chance; that favours whoever allocates more. A peer is upstream's own code wherever
// upstream does the same work: its RBAC authorizer over informer stores, the machinery of ValidatingAdmissionPolicy, its audit
// policy evaluator, its subject locator. Where it does not, the peer is the same work at another size or done from scratch, and
// its name says so.
//
// The spread is the interquartile range of the rounds in percent of the median, of whichever side has the larger one. A line
// with a spread of more than ten says little.
package main
