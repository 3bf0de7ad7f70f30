// Package escalation proves that a user who grants rights by a role or a binding holds them (PO-12). It asks the index
// what the writer holds, builds an index for that writer alone, and checks every request that the rules of the grant
// and of the writer can tell apart.
package escalation
