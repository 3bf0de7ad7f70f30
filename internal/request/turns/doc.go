// Package turns lets callers take turns at work that takes long: checking what a role hands out, and compiling its
// conditions. It stands behind admission, where such a write is checked. Few of them run at a time, so the others have
// processors left; each caller runs one; and callers who wait go round robin.
package turns
