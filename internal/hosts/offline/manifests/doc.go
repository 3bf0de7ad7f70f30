// Package manifests reads the objects that the tools work on, from files or from a server: documents with their origin
// (documents.go), the positions of their fields in a file (places.go), and a cache of what this process has already
// read from the same server and compiled (kept.go).
package manifests
