// Package access knows what AccessRules let people ask for and what AccessRequests grant them: who may ask, whose
// approval counts, in which state a request is at an instant, and what the grants of a user allow.
package access
