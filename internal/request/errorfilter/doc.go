// Package errorfilter hides stored objects from callers whose write was not admitted.
//
// Place in the request path: around the servers, behind authorization, and around the storage. Upstream answers some
// writes without asking admission, and validates others before it. The filter holds every response to a write that
// depends on the object, and the storage records which states the write has looked at. A response leaves once all of
// them are admitted, or may be read anyway.
package errorfilter
