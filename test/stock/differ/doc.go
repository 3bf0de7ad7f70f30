// Package differ sends the same random requests to a server of ours and to a stock kube-apiserver with a sidecar. Both
// have the same policy and the same objects (SC-12). Writes are dry runs, so that both stay as they are. Nothing may be
// allowed by the pair that the server refuses, and what only the pair refuses must be of a kind that the guide lists.
package differ
