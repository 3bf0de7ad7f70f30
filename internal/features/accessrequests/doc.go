// Package accessrequests is asking for access: AccessRules say who may ask for which role, AccessRequests ask, others
// approve, and the grant ends by itself.
package accessrequests
