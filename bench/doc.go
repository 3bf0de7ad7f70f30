// Command bench runs Proviso and its peers on the same work in the same run and prints how they compare:
//
//	bench <name> n=<size> proviso=<median> <peer>=<median> ratio=<peer/proviso> spread=<%>
//
// The engines run in this process. Rounds of all sides alternate, so that what disturbs one disturbs the others. Times
// are those that the processor has worked for the process, which a busy machine changes little. Garbage is collected
// between the turns and not counted, unless the heap is too large for that, since whether a collection falls into a
// turn is chance; that favours the side that allocates more. A peer is upstream's own code wherever upstream does the
// same work: its RBAC authorizer over informer stores, the machinery of ValidatingAdmissionPolicy, its audit policy
// evaluator, its subject locator, its bookkeeping of field owners; and cedar-go, OPA and casbin with the same bindings.
// Where there is none, the peer is the same work at another size or done from scratch, or a goal, and its name says so.
//
// Measures whose name begins with e2e run real servers in processes of their own (package live) and load them over
// HTTPS in turns: `proviso serve`, and the stock kube-apiserver of the same modules with an etcd beside it. Their
// latencies and rates are wall clock, and say little on a machine that has other work; -cpu is the processor time of
// the server's processes per request.
//
// The spread is the interquartile range of the rounds in percent of the median, of whichever side has the larger one. A
// line with a spread of more than ten says little.
//
// Run it with `make bench`, or `go -C bench run . -run who-can`; -o json prints one object per line, -svg DIR draws the
// growth curves, and -from FILE shows and draws what an earlier run has printed.
package main
