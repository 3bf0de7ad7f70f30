package policycodec

import (
	"bytes"
	"hash/maphash"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An object that is written once is decoded several times: to compare it with its key, for the response, as the new and
// then as the old object of a watch, at the next write. A container can be large, and a user who keeps rewriting one
// must not use up the time of others (PO-21). Decoding depends only on the bytes, so the results for the last large
// objects are cached.
const (
	rememberFrom  = 4 << 10
	rememberBytes = 8 << 20
)

// memory caches decoded objects by their bytes.
type memory struct {
	seed maphash.Seed

	mu    sync.Mutex
	known map[uint64]*remembered
	order []uint64 // oldest first
	size  int
}

// remembered is read concurrently and never changed.
type remembered struct {
	data   []byte
	object runtime.Object
	kind   schema.GroupVersionKind
}

func newMemory() *memory {
	return &memory{seed: maphash.MakeSeed(), known: map[uint64]*remembered{}}
}

// recall finds the decoded object of these bytes; nil if it is not cached. A caller that changes the object must copy
// it first.
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

// keep caches an object, which must not be changed afterwards.
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
