// Package verbs names the verbs of requests for resources, and what each of them does to objects. Every list of verbs
// that Kubernetes prescribes is here, once.
package verbs
