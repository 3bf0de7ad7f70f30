// Package cli holds the client commands of proviso, one file per verb. They need no server code, so that the kubectl
// plugin built from them stays small.
package cli
