// Package authzconfig builds the authorizer chain that --authorization-mode or --authorization-config describes: a Plan
// is read from the flags, Authorizers builds its links and puts them into effect, and Follow does so again when the
// file changes. Upstream's types are built as upstream builds them; systems build their own types.
package authzconfig
