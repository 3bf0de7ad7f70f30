package auditlog

import (
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// scanner walks through JSON without making a tree of it: an event has a few fields that count, and most of its bytes
// are others. It accepts exactly what encoding/json accepts (see the fuzz target).
type scanner struct {
	text []byte
	at   int
}

var errJSON = errors.New("not valid JSON")

// maxDepth is the depth at which encoding/json gives up.
const maxDepth = 10_000

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// peek is the next byte that counts, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// end reports whether nothing is left.
func (s *scanner) end() bool {
	s.space()
	return s.at == len(s.text)
}

// value passes over one value and returns its bytes.
func (s *scanner) value(depth int) ([]byte, error) {
	c := s.peek()
	from := s.at
	var ok bool
	switch {
	case depth > maxDepth:
	case c == '"':
		ok = s.quoted()
	case c == '{':
		return s.collection(depth, '}', true)
	case c == '[':
		return s.collection(depth, ']', false)
	case c == 't':
		ok = s.word("true")
	case c == 'f':
		ok = s.word("false")
	case c == 'n':
		ok = s.word("null")
	case c == '-' || '0' <= c && c <= '9':
		ok = s.number()
	}
	if !ok {
		return nil, errJSON
	}
	return s.text[from:s.at], nil
}

// collection passes over an object or a list.
func (s *scanner) collection(depth int, closing byte, keys bool) ([]byte, error) {
	from := s.at
	s.at++
	if s.take(closing) {
		return s.text[from:s.at], nil
	}
	for {
		if keys && (s.peek() != '"' || !s.quoted() || !s.take(':')) {
			return nil, errJSON
		}
		if _, err := s.value(depth + 1); err != nil {
			return nil, err
		}
		if s.take(closing) {
			return s.text[from:s.at], nil
		}
		if !s.take(',') {
			return nil, errJSON
		}
	}
}

// plain are the bytes that stand for themselves within quotes.
var plain = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return table
}()

func (s *scanner) quoted() bool {
	for i := s.at + 1; i < len(s.text); i++ {
		c := s.text[i]
		if plain[c] {
			continue
		}
		switch c {
		case '"':
			s.at = i + 1
			return true
		case '\\':
			if i++; i >= len(s.text) {
				return false
			}
			switch s.text[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; i >= len(s.text) || !isHex(s.text[i]) {
						return false
					}
				}
			default:
				return false
			}
		default:
			return false
		}
	}
	return false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func (s *scanner) word(w string) bool {
	if len(s.text)-s.at < len(w) || string(s.text[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

func (s *scanner) number() bool {
	digits := func() bool {
		from := s.at
		for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
			s.at++
		}
		return s.at > from
	}
	next := func(set string) bool {
		for i := range len(set) {
			if s.at < len(s.text) && s.text[s.at] == set[i] {
				s.at++
				return true
			}
		}
		return false
	}
	next("-")
	if !next("0") && !digits() {
		return false
	}
	if next(".") && !digits() {
		return false
	}
	if next("eE") {
		next("+-")
		return digits()
	}
	return true
}

// object hands out the fields of an object. A key that comes twice is handed out twice; the last one counts.
func (s *scanner) object(each func(key string, value []byte) error) error {
	if !s.take('{') {
		return errJSON
	}
	if s.take('}') {
		return nil
	}
	for {
		if s.peek() != '"' {
			return errJSON
		}
		from := s.at
		if !s.quoted() {
			return errJSON
		}
		raw := s.text[from:s.at]
		if !s.take(':') {
			return errJSON
		}
		value, err := s.value(1)
		if err != nil {
			return err
		}
		// Most keys are compared with constants and never kept: that does not allocate.
		if err := each(keyOf(raw), value); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return errJSON
		}
	}
}

// keyOf is a key without its quotes.
func keyOf(raw []byte) string {
	inner := raw[1 : len(raw)-1]
	if known, ok := keys[string(inner)]; ok {
		return known
	}
	text, err := unquote(raw)
	if err != nil {
		return ""
	}
	return text
}

// keys are those that count, so that they are not made again for every event.
var keys = func() map[string]string {
	all := map[string]string{}
	for _, key := range []string{"kind", "apiVersion", "metadata", "items", "level", "auditID", "stage", "requestURI", "verb", "user", "impersonatedUser", "sourceIPs", "userAgent", "objectRef",
		"responseStatus", "requestObject", "responseObject", "requestReceivedTimestamp", "stageTimestamp", "annotations", "username", "uid", "groups", "extra", "resource", "namespace", "name",
		"authenticationMetadata", "impersonationConstraint", "apiGroup", "resourceVersion", "subresource", "code", "status", "reason", "message", "details", decisionKey, "authorization.k8s.io/reason"} {
		all[key] = key
	}
	return all
}()

// list hands out the elements of a list.
func (s *scanner) list(each func(value []byte) error) error {
	if !s.take('[') {
		return errJSON
	}
	if s.take(']') {
		return nil
	}
	for {
		value, err := s.value(1)
		if err != nil {
			return err
		}
		if err := each(value); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return errJSON
		}
	}
}

// unquote is the text within quotes.
func unquote(raw []byte) (string, error) {
	if isPlain(raw) {
		return string(raw[1 : len(raw)-1]), nil
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err
}

// isPlain reports whether a quoted text contains no escapes.
func isPlain(raw []byte) bool {
	for _, c := range raw[1 : len(raw)-1] {
		if c == '\\' {
			return false
		}
		if c >= utf8.RuneSelf {
			return utf8.Valid(raw) && !hasBackslash(raw)
		}
	}
	return true
}

func hasBackslash(raw []byte) bool {
	for _, c := range raw {
		if c == '\\' {
			return true
		}
	}
	return false
}
