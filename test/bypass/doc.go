// Package bypass hunts for ways round the five systems, on the real server. What it tries is generated from discovery:
// every resource and subresource that is served, every verb it lists, and every way in which a request with that verb
// can be made. An endpoint that a new version of Kubernetes or a new kind of ours adds is tried by itself; the hunt
// fails if it cannot be.
//
// Each system has callers who must never succeed, and a twin who differs in one thing and gets through:
//
//	conditions   a right that depends on a condition which is false (conditions_test.go)
//	policy       a cluster admin whom a rule denies everything (policy_test.go)
//	fields       a general writer and an exclusive field; a writer of single fields (fields_test.go)
//	protected    a label and an annotation of which the caller may change neither (protected_test.go)
//	audit        every request of the hunt is in a real sink, with its user, verb, resource and answer (audit_test.go)
package bypass
