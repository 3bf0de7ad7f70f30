// Package conditions is the system for conditional authorization: it carries conditions on the object of a request from
// the chain to admission, and shows them in access reviews. The gate and the enforcer honour conditions and are there
// whichever systems are enabled; this system lets conditions get that far.
package conditions
