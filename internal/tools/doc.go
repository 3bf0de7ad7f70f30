// Package tools holds the commands that work on policy in files: no server is asked, and the same systems decide. They
// are not part of the kubectl plugin, which stays free of their weight.
package tools
