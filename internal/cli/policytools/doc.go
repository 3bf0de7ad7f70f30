// Package policytools holds the commands that work on policy as a whole, of files or of a server: the same systems
// decide, in this process.
package policytools
