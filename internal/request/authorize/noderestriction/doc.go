// Package noderestriction is what no node may do, whatever others allow: the NodeRestriction admission plugin as a link
// of the chain.
//
// Place in the request path: ahead of the configured authorizers.
package noderestriction
