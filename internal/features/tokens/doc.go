// Package tokens is narrowed tokens: credentials that can only do less than their user, for agents, scripts and
// pipelines. It recognises them, lets a tier ahead of the whole chain refuse what they do not allow, issues and revokes
// them.
package tokens
