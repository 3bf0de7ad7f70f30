// Package authzconfig is the authorizer chain as --authorization-mode or --authorization-config describes it: a Plan is
// read from the flags, Authorizers builds its links and puts them in force, and Follow does so again when the file
// changes. Upstream's types are built as upstream builds them; those of systems are asked of the systems.
package authzconfig
