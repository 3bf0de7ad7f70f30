// Package reviewtest serves access reviews for tests: a real, small API server over HTTP, and authorizers that say what
// they are told.
package reviewtest
