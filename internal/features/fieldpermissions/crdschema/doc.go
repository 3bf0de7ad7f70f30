// Package crdschema lets the authors of custom resources declare field permissions where they describe their fields: in
// the schema of the CustomResourceDefinition, with the keys x-kubernetes-permission-verb and its relatives (FP-3).
//
// The Go types of CustomResourceDefinition do not have these keys. So Filter takes them out of a write after
// authorization and before the body is decoded. They travel and are stored in one annotation of the same object.
// Plugin, last in mutating admission, reconciles them with what is stored, inside the transaction. Every JSON and YAML
// response has them back where they were written. The rest of the request is handled by upstream.
//
// The annotation belongs to the server: it is not shown, and a write that sets it in any other way is refused. Leaving
// a key out never removes it, so a client that does not know the keys cannot remove a guard; null removes it. A write
// with declarations that cannot be read, are too large, are given twice or break the rules of permissions is refused as
// a whole, and nothing is stored.
//
// Declared reads what a stored definition declares, for the table of permissions.
package crdschema
