// Package base is what every system stands on, whichever of them are on: the kernel, the rule index and what is
// served in the snapshot, the filters that no gate takes away, and the end of what belongs to a namespace.
package base
