package sink

import (
	"crypto/rand"
	"strconv"
	"sync/atomic"
)

// identityKey is the annotation with the identity of an event: the same in every sink and for every repetition of a
// delivery, and unique. The audit-ID is not unique: a caller chooses it with a header of the request, and may choose
// that of another request.
const identityKey = "audit.proviso.dev/event-id"

var (
	// incarnation tells this process from all others that ever were.
	incarnation = rand.Text()
	identities  atomic.Uint64
)

// appendIdentity writes a new identity, which is safe in JSON as it is.
func appendIdentity(b []byte) []byte {
	return strconv.AppendUint(append(append(b, incarnation...), '-'), identities.Add(1), 10)
}
