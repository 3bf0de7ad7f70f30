// Package narrowedtoken is the format of narrowed tokens: who the user is, and a chain of links each of which can only
// take away. A holder can append a link, and nobody can remove, change or reorder one. It computes and
// checks bytes; what a link allows is decided by the rule engine. docs/reference/narrowed-tokens.md describes every
// byte.
package narrowedtoken
