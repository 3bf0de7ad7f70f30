// Package policytools holds the commands that work on policy as a whole, from files or from a server: the same systems
// decide, in this process.
package policytools
