// Package registry serves Proviso's own API groups from a GenericAPIServer: the stored kinds (policies, policy
// bindings, field permissions, protected attributes, audit sinks and classes), the views on what the containers hold
// (roles, role bindings) and the create-only reviews. It stands at the end of the request path, behind authorization
// and admission, in front of etcd.
//
// It does not know how requests are decided. What it needs of that (compile a rule, check for escalation, answer a
// review) is injected as small interfaces. If one is missing or fails, the write fails.
package registry
