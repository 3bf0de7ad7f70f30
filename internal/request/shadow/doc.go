// Package shadow keeps what rules that are not enforced would have changed: counters and the latest flips, in memory.
//
// Place in the request path: none. The gate and the enforcer report to it after they have decided (TR-6).
package shadow
