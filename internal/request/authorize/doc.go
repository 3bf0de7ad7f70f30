// Package authorize decides who may do what: the lazy authorizer chain and the gate that connects it to the server.
//
// Place in the request path: after authentication, impersonation and flow control, before the body is read. The gate is
// what upstream's authorization filter calls; it answers "forbidden" when nothing in the chain can allow the request,
// and otherwise lets it go on with a pass in the request's holder that the enforcer resolves in admission.
//
// Upstream authorizes in more places than the filter. All of them and what each gets are listed in
// test/drift/testdata/authorize-sites.txt; a test fails when a Kubernetes upgrade adds one.
package authorize
