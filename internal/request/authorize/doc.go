// Package authorize decides who may do what: the lazy authorizer chain and the gate that connects it to the server.
//
// Place in the request path: after authentication, impersonation and flow control, before the body is read. The gate is
// what upstream's authorization filter calls; it answers "forbidden" if nothing in the chain can allow the request.
// Otherwise the request continues with a pass in its State, which the enforcer resolves in admission.
//
// Upstream authorizes in more places than the filter. test/drift/testdata/authorize-sites.txt lists all of them and
// what each gets; a test fails when a Kubernetes upgrade adds one.
package authorize
