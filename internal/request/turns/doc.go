// Package turns makes callers take turns at slow work: checking what a role grants, compiling its conditions, reading
// the journal of policy. Only a few run at a time, which leaves processors for other requests; each caller runs at most
// one; waiting callers are served round robin.
package turns
