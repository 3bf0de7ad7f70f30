package policycodec

import (
	"bytes"
	"hash/maphash"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is written once is decoded several times: to be compared with its key, for the answer, as the new and then as
// the old object of a watch, at the next write. A container can be large, and a user who rewrites one without pause
// must not take the time of others (PO-21). Decoding is a function of the bytes alone, so that what came of the last
// large objects is kept.
const (
	rememberFrom  = 4 << 10
	rememberBytes = 8 << 20
)

// memory keeps what some bytes were decoded to.
type memory struct {
	seed maphash.Seed

	mu    sync.Mutex
	known map[uint64]*remembered
	order []uint64 // oldest first
	size  int
}

// remembered is read by many at a time and never changed.
type remembered struct {
	data   []byte
	object runtime.Object
	kind   schema.GroupVersionKind
}

func newMemory() *memory {
	return &memory{seed: maphash.MakeSeed(), known: map[uint64]*remembered{}}
}

// recall finds what these very bytes were decoded to; nil if it is not kept. A caller that changes the object copies it
// before.
func (m *memory) recall(data []byte) *remembered {
	if len(data) < rememberFrom {
		return nil
	}
	sum := maphash.Bytes(m.seed, data)
	m.mu.Lock()
	found := m.known[sum]
	m.mu.Unlock()
	if found == nil || !bytes.Equal(found.data, data) {
		return nil
	}
	return found
}

// keep remembers an object, which nobody may change afterwards.
func (m *memory) keep(data []byte, object runtime.Object, kind schema.GroupVersionKind) {
	if len(data) < rememberFrom || len(data) > rememberBytes {
		return
	}
	sum := maphash.Bytes(m.seed, data)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[sum] != nil {
		return
	}
	m.known[sum] = &remembered{data: bytes.Clone(data), object: object, kind: kind}
	m.order, m.size = append(m.order, sum), m.size+len(data)
	for m.size > rememberBytes {
		m.size -= len(m.known[m.order[0]].data)
		delete(m.known, m.order[0])
		m.order = m.order[1:]
	}
}
