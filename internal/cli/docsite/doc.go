// Package docsite builds one searchable site from the documents of the repository and the commands of the binary, and
// serves it or writes it to a directory. Neither building nor reading it needs a network.
package docsite
