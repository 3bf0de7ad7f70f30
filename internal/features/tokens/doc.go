// Package tokens is the system for narrowed tokens: credentials with fewer rights than their user, for agents, scripts
// and pipelines. It recognises, issues and revokes them, and a tier ahead of the whole chain refuses what they do not
// allow.
package tokens
