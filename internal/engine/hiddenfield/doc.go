// Package hiddenfield removes fields from objects for readers who may not see them, and restores them in what such
// readers write.
//
// Everything works on copies: objects that come from a cache are shared. What a reader sees depends only on the visible
// part of an object, so two objects that differ only in hidden fields look the same.
package hiddenfield
