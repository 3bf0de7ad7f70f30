// Package base is what every system builds on, whichever of them are enabled: the kernel, the rule index and the served
// resources in the snapshot, the filters that no gate disables, and the deletion of what belongs to a deleted
// namespace.
package base
