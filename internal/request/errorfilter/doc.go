// Package errorfilter keeps the content of objects from callers who may not see it.
//
// Place in the request path: around the servers, behind authorization. Validation comes before the enforcer, so that
// its errors are looked at on their way back.
package errorfilter
