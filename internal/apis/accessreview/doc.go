// Package accessreview answers the access reviews of authorization.k8s.io, with conditions for callers that ask for
// them.
//
// Place in the request path: it is the storage of the group, behind authorization and admission. It replaces
// Kubernetes' provider of the whole group, since a version can only be added inside a group's own provider. A caller
// that does not ask for conditions gets, byte for byte, what Kubernetes would have answered with the same authorizer.
//
// A review must not promise more than a request would get: conditions are only shown where they would be honoured, and
// every failure is shown as Deny or no opinion, never as Allow.
package accessreview
