// Package escalation proves that a user who hands out rights by a role or a binding has them (PO-12). It asks the index
// what the writer has, builds an index of the writer alone, and looks at every request that the rules of the grant and
// of the writer can tell apart.
package escalation
