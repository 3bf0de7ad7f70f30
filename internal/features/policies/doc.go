// Package policies is Policy: roles and role bindings that allow and deny, in a namespace and in the master namespace
// for all of them.
package policies
