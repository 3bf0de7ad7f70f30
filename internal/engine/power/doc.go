// Package power is the list of requests that are as good as more rights than they name: they act as another user, hand
// out rights, or change what every request goes through. Lint warns of rules that give them, and a narrowed token has
// them only if every link names them. The list is in one place.
package power
