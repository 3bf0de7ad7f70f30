// Package rbacstorage replaces the escalation check in the storage of RBAC with ours.
//
// Place in the request path: the end of validating admission, for writes of RBAC's own kinds.
package rbacstorage
