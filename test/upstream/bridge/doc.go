// Package bridge lets Kubernetes' own integration tests start Proviso in the place of kube-apiserver (test/upstream).
// It is built with the tag upstream only.
package bridge
