// Package accessreview answers the access reviews of authorization.k8s.io, with conditions for callers that ask for
// them.
//
// Place in the request path: it is the storage of the group, behind authorization and admission. It takes the place of
// Kubernetes' provider of the whole group, since a version can only be added inside of a group's own provider. A caller
// that asks for no conditions gets, byte for byte, what Kubernetes would have answered with the same authorizer.
//
// A review must not promise more than a request would get: conditions are only shown where they would be honoured, and
// whatever fails is shown as Deny or no opinion, never as Allow.
package accessreview
