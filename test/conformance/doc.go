// Package conformance runs upstream's own conformance tests that need no node against a running server, with all of
// Proviso's feature gates on and with all of them off. It is a module of its own so that what upstream's test framework
// links stays out of the product's dependencies.
//
// testdata/specs.txt names the specs that run, testdata/quick.txt the part of them that `make verify` runs, and
// testdata/skipped.txt every other conformance test with the reason. test/drift checks that the lists are complete.
package conformance
