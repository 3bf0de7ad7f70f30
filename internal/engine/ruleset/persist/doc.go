// Package persist holds the persistent data structures of the rule index. None of them ever changes under a reader: a
// change gives a new value, which shares all that is unchanged with the old one. They know nothing about rules.
//
// Map is a hash map, Set one of members that know their own keys, Slots an array of numbered values, Roster a long
// ordered list, and Splice changes a short one. An Owner marks what one edit has created, so the edit can keep changing
// it in place until it is published.
package persist
