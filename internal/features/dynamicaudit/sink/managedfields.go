package sink

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
)

// withoutManagedFields returns the object without the managed fields of itself, of the items of a list and of the
// objects of a table's rows, which is what upstream leaves out when a policy says omitManagedFields. Everything else
// stays as it is, byte for byte. The object itself is not changed; it is returned if there is nothing to leave out or
// it is not JSON.
func withoutManagedFields(obj *runtime.Unknown) *runtime.Unknown {
	if obj == nil || !bytes.Contains(obj.Raw, []byte(`"managedFields"`)) {
		return obj
	}
	s := stripper{dec: json.NewDecoder(bytes.NewReader(obj.Raw)), raw: obj.Raw}
	s.dec.UseNumber()
	if s.object(root) != nil || len(s.cuts) == 0 {
		return obj
	}
	rest, ok := s.rest()
	if !ok {
		return obj
	}
	out := *obj
	out.Raw = rest
	return &out
}

// stripper walks over the text and notes which parts to cut out.
type stripper struct {
	dec  *json.Decoder
	raw  []byte
	cuts [][2]int64
}

// place is where in an object the walk is.
type place int

const (
	root   place = iota // the object, or an item of a list, or the object of a row
	meta                // its metadata
	list                // items
	rows                // rows of a table
	row1                // a row
	others              // anything that cannot hold managed fields of interest
)

func (p place) below(key string) place {
	switch {
	case p == root && key == "metadata":
		return meta
	case p == root && key == "items":
		return list
	case p == root && key == "rows":
		return rows
	case p == row1 && key == "object":
		return root
	default:
		return others
	}
}

func (p place) element() place {
	switch p {
	case list:
		return root
	case rows:
		return row1
	default:
		return others
	}
}

// object walks over the next value, which is at the given place.
func (s *stripper) object(at place) error {
	tok, err := s.dec.Token()
	if err != nil {
		return err
	}
	switch tok {
	case json.Delim('{'):
		for s.dec.More() {
			before := s.dec.InputOffset()
			key, err := s.dec.Token()
			if err != nil {
				return err
			}
			name, _ := key.(string)
			if err := s.object(at.below(name)); err != nil {
				return err
			}
			if at == meta && name == "managedFields" {
				s.cut(before, s.dec.InputOffset())
			}
		}
	case json.Delim('['):
		for s.dec.More() {
			if err := s.object(at.element()); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = s.dec.Token() // the closing one
	return err
}

// cut notes a member of an object, from after what precedes it, together with the comma before it or, for the first
// member, the one after it.
func (s *stripper) cut(from, to int64) {
	for i := from; i < to; i++ {
		if s.raw[i] == ',' {
			s.cuts = append(s.cuts, [2]int64{i, to})
			return
		}
		if s.raw[i] == '"' {
			break
		}
	}
	for i := to; i < int64(len(s.raw)); i++ {
		switch s.raw[i] {
		case ' ', '\t', '\r', '\n':
			continue
		case ',':
			to = i + 1
		}
		break
	}
	s.cuts = append(s.cuts, [2]int64{from, to})
}

// rest returns the text without what was cut; false if a member occurs twice, which no encoder of the server writes.
func (s *stripper) rest() ([]byte, bool) {
	out := make([]byte, 0, len(s.raw))
	at := int64(0)
	for _, c := range s.cuts {
		if c[0] < at {
			return nil, false
		}
		out = append(out, s.raw[at:c[0]]...)
		at = c[1]
	}
	return append(out, s.raw[at:]...), true
}
