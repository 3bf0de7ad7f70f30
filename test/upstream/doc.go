// Package upstream runs test/integration of Kubernetes against Proviso and against stock kube-apiserver, with the same test binary, and
// compares them test by test (SV-13). `make upstream PKG=auth` calls ./run. docs/testing.md has figures.
//
// Kubernetes' tests start API servers inside of the test process, in three places. testdata/kubernetes.patch changes these in a
// copy of the module, so that an environment variable chooses which server is started: a copy, because a Go overlay may not replace
// files of the module cache. It reaches Proviso through ./bridge and internal/server/upstream.go, which the tag upstream builds.
//
// testdata/differences.txt lists the tests that differ on purpose, or because of the harness, each with its reason.
package upstream
