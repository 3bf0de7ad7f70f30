// Package answers holds what the tools say against what a live server does: who-can, plan, matrix, explain and reviews
// with content, on random policies of every kind, for subjects with groups and extra.
package answers
