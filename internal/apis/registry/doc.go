// Package registry serves Proviso's own API groups from a GenericAPIServer: the stored kinds (policies, policy
// bindings, field permissions, protected attributes, audit sinks and classes), the views on what the containers hold
// (roles, role bindings) and the create-only reviews. It stands at the end of the request path, behind authorization
// and admission, in front of etcd.
//
// It knows nothing of how requests are decided. What it needs of that — compile a rule, check for escalation, answer a
// review — is handed in as small interfaces, and whatever is missing or fails makes a write fail.
package registry
