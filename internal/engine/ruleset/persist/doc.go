// Package persist holds the structures that an index of rules is made of. None of them ever changes under a
// reader: a change gives a new value, which shares with the old one all that is the same. They know nothing of rules.
//
// Map is a hash map, Set one of members that know their own keys, Slots an array of numbered values, Roster a long
// ordered list, and Splice changes a short one. An Owner marks what one edit has made, so that it can go on changing it
// in place until it is published.
package persist
