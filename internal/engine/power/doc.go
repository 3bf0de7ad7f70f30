// Package power is the list of requests that amount to more rights than they name: they act as another user, grant
// rights, or change what every request passes through. Lint warns of rules that grant them. A narrowed token has them
// only if every link names them. The list exists only here.
package power
