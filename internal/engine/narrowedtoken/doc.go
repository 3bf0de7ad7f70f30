// Package narrowedtoken is the format of narrowed tokens: the user, and a chain of links each of which can only take
// rights away. A holder can append a link, but nobody can remove, change or reorder one. The package computes and
// checks bytes; the rule engine decides what a link allows. docs/reference/narrowed-tokens.md describes every byte.
package narrowedtoken
