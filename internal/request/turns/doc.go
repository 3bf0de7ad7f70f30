// Package turns lets callers take turns at work that takes long: checking what a role hands out, compiling its
// conditions, reading the journal of policy. Few of them run at a time, so the others have
// processors left; each caller runs one; and callers who wait go round robin.
package turns
