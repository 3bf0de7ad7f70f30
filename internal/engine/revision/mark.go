package revision

import (
	"crypto/sha256"
	"encoding/binary"
)

// Mark is the contribution of one object to the State of its source: the sum of the marks of all objects is the same
// wherever the same objects exist in the same versions, in whatever order they arrived.
func Mark(uid, resourceVersion string) uint64 {
	sum := sha256.Sum256([]byte(uid + "\x00" + resourceVersion))
	return binary.BigEndian.Uint64(sum[:])
}

// empty is the state of a source without objects. 0 means that the state is not known.
const empty = 0x9e3779b97f4a7c15

// State turns the sum of the marks into a state.
func State(sum uint64) uint64 {
	if state := sum + empty; state != 0 {
		return state
	}
	return 1
}
