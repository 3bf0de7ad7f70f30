// Package client is the typed client of Proviso's API groups: clientset/versioned talks to the server, informers and
// listers keep a local copy, applyconfiguration holds what server-side apply sends. All of it is generated from the
// types in api/ with Kubernetes' own generators (`make generate`).
package client
