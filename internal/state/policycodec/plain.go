package policycodec

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// plain proves in one pass that a stored container has no part that unknownParts would report. Nearly all that is
// stored has none, and unknownParts takes several passes and an allocation for every key. The text is valid JSON: it
// has been decoded. False proves nothing: every spelling that is not the usual one (an escape in a key, anything but
// ASCII) is left to unknownParts.
func plain(data []byte, obj runtime.Object) bool {
	if len(data) == 0 || data[0] != '{' {
		return false
	}
	s := &scan{data: data}
	switch obj.(type) {
	case *policy.Policy:
		return s.container(policyKeys, "roles", roleKeys)
	case *policy.PolicyBinding:
		return s.container(policyBindingKeys, "roleBindings", roleBindingKeys)
	}
	return false
}

// scan is a place in a JSON text.
type scan struct {
	data []byte
	at   int
}

// container reads an object that has these keys, each at most once, of which one holds entries that have only the given
// keys.
func (s *scan) container(keys []string, entries string, entryKeys []string) bool {
	names := map[string]bool{}
	ok := s.closed(keys, func(key string) bool {
		if key != entries {
			return s.skip()
		}
		return s.object(func(name []byte) bool {
			if names[string(name)] {
				return false
			}
			names[string(name)] = true
			return s.closed(entryKeys, func(string) bool { return s.skip() })
		})
	})
	s.space()
	return ok && s.at == len(s.data)
}

// closed reads an object that has only these keys, each at most once.
func (s *scan) closed(keys []string, value func(key string) bool) bool {
	var seen [8]bool
	return s.object(func(key []byte) bool {
		i := slices.IndexFunc(keys, func(known string) bool { return known == string(key) })
		if i < 0 || i >= len(seen) || seen[i] {
			return false
		}
		seen[i] = true
		return value(keys[i])
	})
}

// object reads an object and lets each take the value behind a key.
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

// key is a key that is spelled as it reads.
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

// skip steps over a value.
func (s *scan) skip() bool {
	s.space()
	for depth := 0; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return true // behind a number or a word: it is the object's
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

// text steps to the end of a string, at its closing quote.
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
