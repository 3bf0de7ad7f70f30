// Package hiddenfield takes fields out of objects for readers who may not see them, and puts them back into what such
// readers write.
//
// Everything works on copies: objects that come from a cache are shared. What a reader sees depends on the visible part
// of an object alone, so two objects that differ in hidden fields only look the same.
package hiddenfield
