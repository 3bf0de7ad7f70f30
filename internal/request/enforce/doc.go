// Package enforce is the admission plugin AuthorizationConditionsEnforcer.
//
// Place in the request path: first in validating admission, on the fully mutated object, in every server of the
// process. It wraps the admission chain itself instead of being registered as a plugin, so no flag can remove it. A
// request without a pass from the authorization gate is refused.
package enforce
