// Package verbs names the verbs of requests for resources, and says of each what it does to objects. Every list of
// verbs that is a rule of Kubernetes is here, once.
package verbs
