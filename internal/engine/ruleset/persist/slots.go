package persist

import "slices"

const chunkSize = 256

// Slots gives every value a number that stays the same while the value exists or is referred to. Looking one up is two
// array accesses, and changing one copies a chunk. K is the name to which a number was assigned.
type Slots[K comparable, V any] struct {
	chunks []*chunk[K, V]
	owner  *Owner // of the slice chunks
	free   []uint32
	freed  *Owner // of the slice free
	used   int    // numbers given out so far, free ones included
}

type chunk[K comparable, V any] struct {
	owner  *Owner
	values [chunkSize]*V // nil while the value is not defined
	meta   [chunkSize]meta[K]
}

type meta[K comparable] struct {
	key  K
	refs int32
}

// Get returns the value of a number, or nil while it is not defined.
func (s *Slots[K, V]) Get(id uint32) *V { return s.chunks[id/chunkSize].values[id%chunkSize] }

// Refs returns the number of references to a number.
func (s *Slots[K, V]) Refs(id uint32) int32 { return s.chunks[id/chunkSize].meta[id%chunkSize].refs }

// Key returns the key of a number; the zero value if the number is free.
func (s *Slots[K, V]) Key(id uint32) K { return s.chunks[id/chunkSize].meta[id%chunkSize].key }

// Missing reports whether a number is referred to but has no value.
func (s *Slots[K, V]) Missing(id uint32) bool {
	return int(id) < s.used && s.Refs(id) > 0 && s.Get(id) == nil
}

// Len is how many numbers are in use.
func (s *Slots[K, V]) Len() int { return s.used - len(s.free) }

// Set defines the value of a number, or removes it if v is nil.
func (s *Slots[K, V]) Set(o *Owner, id uint32, v *V) { s.edit(o, id).values[id%chunkSize] = v }

// Refer adds to the count of references to a number.
func (s *Slots[K, V]) Refer(o *Owner, id uint32, delta int32) {
	s.edit(o, id).meta[id%chunkSize].refs += delta
}

// edit returns the chunk of id for changing.
func (s *Slots[K, V]) edit(o *Owner, id uint32) *chunk[K, V] {
	if s.owner != o {
		s.chunks, s.owner = slices.Clone(s.chunks), o
	}
	c := s.chunks[id/chunkSize]
	if c.owner != o {
		copied := *c
		copied.owner = o
		c = &copied
		s.chunks[id/chunkSize] = c
	}
	return c
}

// Alloc returns a number for a key that has none.
func (s *Slots[K, V]) Alloc(o *Owner, key K) uint32 {
	var id uint32
	if n := len(s.free); n > 0 {
		id = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		id = uint32(s.used)
		s.used++
		if int(id/chunkSize) == len(s.chunks) {
			if s.owner != o {
				s.chunks, s.owner = slices.Clone(s.chunks), o
			}
			s.chunks = append(s.chunks, &chunk[K, V]{owner: o})
		}
	}
	c := s.edit(o, id)
	c.values[id%chunkSize], c.meta[id%chunkSize] = nil, meta[K]{key: key}
	return id
}

// Release frees a number.
func (s *Slots[K, V]) Release(o *Owner, id uint32) {
	c := s.edit(o, id)
	c.values[id%chunkSize], c.meta[id%chunkSize] = nil, meta[K]{}
	if s.freed != o {
		s.free, s.freed = slices.Clone(s.free), o
	}
	s.free = append(s.free, id)
}
