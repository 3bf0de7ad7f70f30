package ruleset

import "slices"

const chunkSize = 256

// slots gives every role a number that stays the same while the role exists or is referred to. Looking one up is two
// array accesses, and changing one copies a chunk.
type slots struct {
	chunks []*chunk
	owner  *owner // of the slice chunks
	free   []uint32
	freed  *owner // of the slice free
	used   int    // numbers given out so far, free ones included
}

type chunk struct {
	owner *owner
	roles [chunkSize]*role // nil while nobody has defined the role
	meta  [chunkSize]slotMeta
}

type slotMeta struct {
	ref  RoleRef
	refs int32 // bindings that refer to it
}

func (s *slots) role(id uint32) *role { return s.chunks[id/chunkSize].roles[id%chunkSize] }

func (s *slots) meta(id uint32) slotMeta { return s.chunks[id/chunkSize].meta[id%chunkSize] }

// missing tells whether the role of that number is bound and does not exist.
func (s *slots) missing(id uint32) bool {
	return int(id) < s.used && s.meta(id).refs > 0 && s.role(id) == nil
}

// edit returns the chunk of id for changing.
func (s *slots) edit(o *owner, id uint32) *chunk {
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

// alloc returns a number for a role that has none.
func (s *slots) alloc(o *owner, ref RoleRef) uint32 {
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
			s.chunks = append(s.chunks, &chunk{owner: o})
		}
	}
	c := s.edit(o, id)
	c.roles[id%chunkSize], c.meta[id%chunkSize] = nil, slotMeta{ref: ref}
	return id
}

// release gives a number back.
func (s *slots) release(o *owner, id uint32) {
	c := s.edit(o, id)
	c.roles[id%chunkSize], c.meta[id%chunkSize] = nil, slotMeta{}
	if s.freed != o {
		s.free, s.freed = slices.Clone(s.free), o
	}
	s.free = append(s.free, id)
}
