// Package noderestriction denies what no node may do, whatever others allow: it is the NodeRestriction admission plugin
// as a link of the chain.
//
// Place in the request path: ahead of the configured authorizers.
package noderestriction
