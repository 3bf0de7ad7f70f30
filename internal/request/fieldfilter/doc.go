// Package fieldfilter keeps hidden fields from callers who may not see them (HF).
//
// Place in the request path: around the storage, where get, list and watch get their objects; around the servers, where
// it holds responses to writes and reads patches; and first in mutating admission, where what the caller does not see
// is put back. A request from which nothing is hidden passes all three with one look at the table of field permissions.
package fieldfilter
