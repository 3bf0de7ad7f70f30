// Package policies is the system for Policy: roles and role bindings that allow and deny, in one namespace or, from the
// master namespace, in all of them.
package policies
