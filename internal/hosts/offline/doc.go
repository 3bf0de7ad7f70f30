// Package offline is a host without a server: it reads policy from files and answers what a server with the same
// objects would. It holds the same list of systems.
package offline
