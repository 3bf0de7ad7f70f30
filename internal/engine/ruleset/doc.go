// Package ruleset is the one index that decides Policy and RBAC: subject → scope → resource → rules.
//
// An Index is immutable. Build compiles everything, Apply returns the next index after some changes and shares all that
// is unchanged with the old one; both are used where snapshots are published. Bindings refer to roles by number. So a
// change of a role costs the same whether ten or a hundred thousand bindings use it, and every reader sees either the
// old role everywhere or the new one everywhere.
//
// # Deciding
//
// A request is asked with a Query, which finds the caller's subjects once:
//
//	var q ruleset.Query            // on the stack
//	q.Reset(ix, attributes)
//	m := q.PolicyMaster()
//
// A decision takes a few hash look-ups, as many as the caller has groups, and allocates nothing. The tiers are elements
// of the authorizer chain, which is
//
//	system:masters → node restriction → policy-master → policy-namespace → Node → RBAC → webhooks
//
// and each of them turns its Match into a decision like this (PO-7, PO-8):
//
//  1. Deny found: deny, with the reasons of Deny and of Allow, if both are there.
//  2. Otherwise conditional denies (AppendConditional with Denies) go into the tier's condition set.
//  3. Allow found: allow, or with conditional denies a set whose allow is unconditional.
//  4. Otherwise conditional allows go into the set. Nothing at all: no opinion, with Query.Errors, which names the bindings
//     whose role is missing.
//
// policy-namespace has one step more, before all others: if its match Denies, with or without a condition, and either
// Query.ClusterGrant finds a cluster role binding or the Node authorizer allows the request, then Match.WithoutDenies
// is what counts, and conditional denies are not collected. A master allow needs no such step: it ends the chain
// before, or is conditional and is evaluated before.
//
// Hit.Names is part of a condition: a deny rule that is limited to names, on a request without a name (create, list,
// watch, deletecollection), denies if the object has one of these names. Flattening that to "does not match" would let
// deletecollection delete what delete may not. A caller that cannot check the name has to deny.
//
// # What rules mean
//
// Policy rules mean what PO-1, PO-2 and PO-9 say. In addition: a negated resource takes its subresources with it; the
// verbs exec and proxy also work on the parent (`exec` on `pods` is about pods/exec); `*.group` is everything of a
// group and `pods.` is pods of the core group only; the verbs `impersonate*`, `granular:*` and `reveal:*` name every
// verb with that prefix; what a name without a group means depends on whether the rule gives access or takes it away,
// see matching.Kinds. A review that asks about "*" is allowed only by a rule without exceptions, and denied by every
// deny rule that touches what it asks for. RBAC rules mean exactly what upstream makes of them.
//
// # Other questions
//
// Decide folds the tiers into what Policy and RBAC decide together, which is what counts as held. From it, package
// escalation proves what a writer may grant (PO-12): it may refuse, with a reason, what could be granted, but never
// passes what is not held, not even for kinds that are not served yet. Everyone is the inverse; package whocan computes
// its answer from it. Bound is membership in a role of RBAC (PA-3), Coverage what a rule covers now (PO-1), BindingsOf
// what keeps a role from being deleted (PO-5).
//
// # What goes wrong
//
// A rule that does not compile is quarantined alone (SV-8): an allow rule grants nothing, a deny rule denies without
// its condition, and more widely if its kinds or verbs cannot be read. A binding whose role does not exist grants
// nothing. Problems lists both. Nothing in this package panics on bad input, reads a clock or keeps state outside its
// values.
package ruleset
