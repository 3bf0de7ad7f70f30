// Package docsite makes one site of the documents of the repository and the commands of the binary, with a search, and
// serves it or writes it to a directory. It needs no network, neither to be made nor to be read.
package docsite
