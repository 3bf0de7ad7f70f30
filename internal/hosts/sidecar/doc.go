// Package sidecar is a host beside a stock kube-apiserver: it holds the same list of systems, answers the server's
// authorization and admission webhooks, and serves our API groups to its aggregator. It reads what it needs of the
// cluster, and stores nothing but policy.
package sidecar
