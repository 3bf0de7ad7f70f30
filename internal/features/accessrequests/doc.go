// Package accessrequests is the system for temporary access: AccessRules say who may ask for which role, a user asks
// with an AccessRequest, others approve it, and the grant ends by itself.
package accessrequests
