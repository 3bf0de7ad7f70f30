// Package crdschema lets the authors of custom resources declare field permissions where they describe their fields: in
// the schema of the CustomResourceDefinition, with the keys x-kubernetes-permission-verb and its kin (FP-3).
//
// The Go types of CustomResourceDefinition do not have these keys. So they are lifted out of a write behind
// authorization and before the body is decoded (Filter), travel and are stored in one annotation of the same object,
// are settled with what is stored inside of the transaction (Plugin, last in mutating admission), and are put back
// where they were written in every JSON and YAML response. Everything else of a request is upstream's.
//
// The annotation belongs to the server: it is not shown, and what arrives in it by another way is refused. Leaving a
// key out never removes it, so that a client which does not know the keys cannot take a guard away; null removes it.
// What cannot be read, is too large, is written twice or does not follow the rules of permissions is refused as a
// whole, and nothing is stored.
//
// Declared reads what a stored definition declares, for the table of permissions.
package crdschema
