// Package twoworlds searches for what a caller can learn without the right to see it (NI-1, NI-2).
//
// Two real servers run in this process. A case fills both with the same cluster and then changes one thing in the
// second that the caller may not see: the content of an object, its labels, whether it exists, an older revision of it,
// another namespace, a hidden field, the policy of another user, or what another user has asked for. The caller sends
// the same requests to both, some with a narrowed token, and some by what was granted to them. Whatever differs in the
// answers, beyond the table of allowed differences, is a find: it is made as short as possible and kept in testdata,
// where `go test` replays it. `go run ./hack/prove two-worlds` searches for an hour.
package twoworlds
