// Package fieldperm decides whether a caller may change the fields that a write changes.
//
// A field permission names a concept, such as labels, node assignment or self destruction. The right to change it has
// the verb "granular:<name>", so any authorizer can grant it. The package holds the table of permissions (shipped ones,
// FieldPermission objects, declarations in CRD schemas). It uses the resource's own schema to find what changed between
// the stored and the final object, and asks for as few verbs as it takes to cover every changed field.
//
// It is an engine: a pure function of the table, the two objects and the answers to the verbs it asks about.
// Authorizers, CEL and defaulting are injected.
//
// Every failure refuses: a field that no permission covers, an authorizer that errs, a schema that cannot be resolved,
// a parameter that cannot be computed and a declaration that does not compile all leave the field uncovered. An
// exclusive declaration that does not compile is exclusive without its condition.
package fieldperm
