// Package manifests reads the objects that the tools work on, from files or from a server: documents that say where
// they are from (documents.go), where their fields stand in a file (places.go), and what a process that asks the same
// server again has read and compiled already (kept.go).
package manifests
