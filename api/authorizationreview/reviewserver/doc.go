// Package reviewserver is what an authorization webhook needs to answer with conditions. An [Authorizer] decides;
// [Handler] serves it to an API server, for both dialects of conditions and for API servers that know none, checks what
// it says, and evaluates the conditions when the API server sends them back with the object.
//
// Everything that goes wrong fails closed: the zero [Decision] denies, a malformed set denies if it held a Deny, and an
// error leaves the request to the failure policy of the API server.
package reviewserver
