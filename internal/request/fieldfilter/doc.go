// Package fieldfilter removes hidden fields for callers who may not see them (HF).
//
// Place in the request path: around the storage, where get, list and watch read their objects; around the servers,
// where it holds responses to writes and reads patches; and first in mutating admission, where it restores what the
// caller does not see. A request from which nothing is hidden passes all three after one look at the table of field
// permissions.
package fieldfilter
