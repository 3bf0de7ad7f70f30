// Package upstream runs test/integration of Kubernetes against Proviso and against stock kube-apiserver, with the same
// test binary, and compares them test by test (SV-13). `go run ./hack/prove upstream UPSTREAM=auth` calls ./run.
// docs/explanation/testing.md has figures.
//
// Kubernetes' tests start API servers inside of the test process, in three places. testdata/kubernetes.patch changes
// these in a copy of the module, so that an environment variable chooses which server is started. The changed packages
// and those that depend on them, four or five, are compiled as packages of this module, by a Go overlay and under names
// that no directory has; everything else is the Kubernetes that the server is built with, and is compiled already. They
// reach Proviso through ./bridge and internal/hosts/apiserver/upstream.go, which the tag upstream builds.
//
// testdata/differences.txt lists the tests that differ on purpose, or because of the harness, each with its reason.
package upstream
