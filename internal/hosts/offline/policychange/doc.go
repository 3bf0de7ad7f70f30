// Package policychange finds out what a change of policy consists of and what it does: the policy after files are
// applied (applied.go, consequences.go) or as of an earlier revision (journal.go), the writes that lead from one policy
// to another (restore.go), what a server would reject (rejected.go), who may apply it (appliers.go), and who gains, who
// loses and whose conditions change (planned.go). What may change besides is found in guards.go, asking.go,
// namespaces.go, served.go, besides.go and later.go. It reports; the commands print.
package policychange
