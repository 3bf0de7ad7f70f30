// Package fieldperm decides whether a caller may change the fields that a write changes.
//
// A field permission gives a concept — labels, node assignment, self destruction — a name, and a right to change it the
// verb "granular:<name>", so that any authorizer can grant it. The package holds the table of permissions (shipped
// ones, FieldPermission objects, declarations in CRD schemas), finds what changed between the stored and the final
// object with the resource's own schema, and asks for as few verbs as it takes to cover every changed field.
//
// It is an engine: a pure function of the table, the two objects and the answers to the verbs it asks about.
// Authorizers, CEL and defaulting are handed in.
//
// Everything fails towards refusal: a field that no permission covers, an authorizer that errs, a schema that cannot be
// resolved, a parameter that cannot be computed and a declaration that does not compile all leave the field uncovered,
// and an exclusive declaration that does not compile is exclusive without its condition.
package fieldperm
