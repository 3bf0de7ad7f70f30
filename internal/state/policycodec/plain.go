package policycodec

import (
	"slices"
)

// plain proves in one pass that a stored object has no unknown and no duplicate field. Nearly all stored objects have
// none, and listing them takes several passes and an allocation for every key. The text is valid JSON: it has been
// decoded. False proves nothing: every unusual spelling (an escape in a key, anything but ASCII) is left to
// shape.strangers.
func plain(data []byte, of *shape) bool {
	if of == nil || len(data) == 0 || data[0] != '{' {
		return false
	}
	s := &scan{data: data}
	ok := s.value(of)
	s.space()
	return ok && s.at == len(s.data)
}

// scan is a position in a JSON text.
type scan struct {
	data []byte
	at   int
}

// value reads a value of that shape.
func (s *scan) value(of *shape) bool {
	s.space()
	if s.at >= len(s.data) {
		return false
	}
	switch first := s.data[s.at]; {
	case of.open:
		return s.skip()
	case of.own: // it keeps its unknown fields, and has been decoded
		return first == '{' && s.skip()
	case first == '{' && of.names != nil:
		return s.closed(of)
	case first == '{' && of.keyed:
		seen := map[string]bool{}
		return s.object(func(name []byte) bool {
			if seen[string(name)] {
				return false
			}
			seen[string(name)] = true
			return s.element(of.each)
		})
	case first == '[' && of.each != nil && !of.keyed:
		return s.list(of.each)
	case first == '{' || first == '[' || of.keyed:
		return false
	}
	return s.skip()
}

// element reads an entry of a list or a map; an entry that is a struct may not be null.
func (s *scan) element(of *shape) bool {
	s.space()
	if of.names != nil && (s.at >= len(s.data) || s.data[s.at] != '{') {
		return false
	}
	return s.value(of)
}

// maxFields is the maximum number of fields of a struct.
const maxFields = 32

// closed reads an object that has only these fields, each at most once.
func (s *scan) closed(of *shape) bool {
	var seen [maxFields]bool
	return s.object(func(key []byte) bool {
		i := slices.IndexFunc(of.names, func(known string) bool { return known == string(key) })
		if i < 0 || i >= len(seen) || seen[i] {
			return false
		}
		seen[i] = true
		return s.value(of.fields[i])
	})
}

// list reads a list.
func (s *scan) list(of *shape) bool {
	if !s.take('[') {
		return false
	}
	if s.take(']') {
		return true
	}
	for s.element(of) {
		if s.take(']') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
	return false
}

// object reads an object and lets each read the value of a key.
func (s *scan) object(each func(key []byte) bool) bool {
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	for {
		key, ok := s.key()
		if !ok || !s.take(':') || !each(key) {
			return false
		}
		if s.take('}') {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
}

func (s *scan) space() {
	for s.at < len(s.data) && (s.data[s.at] == ' ' || s.data[s.at] == '\n' || s.data[s.at] == '\t' || s.data[s.at] == '\r') {
		s.at++
	}
}

func (s *scan) take(c byte) bool {
	s.space()
	if s.at >= len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// key reads a key without escapes.
func (s *scan) key() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	for begin := s.at; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return s.data[begin : s.at-1], true
		case c == '\\' || c < 0x20 || c >= 0x7f:
			return nil, false
		}
	}
	return nil, false
}

// skip skips a value.
func (s *scan) skip() bool {
	s.space()
	for depth := 0; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return true // after a number or a word: it belongs to the object
			}
			if depth == 0 {
				s.at++
				return true
			}
		case '"':
			if !s.text() {
				return false
			}
			if depth == 0 {
				s.at++
				return true
			}
		case ',':
			if depth == 0 {
				return true
			}
		}
	}
	return false
}

// text skips to the end of a string, at its closing quote.
func (s *scan) text() bool {
	for s.at++; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '\\':
			s.at++
		case '"':
			return true
		}
	}
	return false
}
