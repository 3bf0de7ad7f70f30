// Package access evaluates AccessRules and AccessRequests: who may ask for what, whose approval counts, the state of a
// request at an instant, and what the grants of a user allow.
package access
