// Package rbacstorage puts our escalation check in the place of the one that the storage of RBAC has.
//
// Place in the request path: the end of validating admission, for writes of RBAC's own kinds.
package rbacstorage
