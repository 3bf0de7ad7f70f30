package v1alpha1

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"

	"sigs.k8s.io/json"
)

// Normalised is the type without its other spellings. They are kept as they were written, so that applying a file again changes nothing.
func (t SubjectType) Normalised() SubjectType {
	switch t {
	case "Users":
		return SubjectUser
	case "Group":
		return SubjectUserGroup
	}
	return t
}

// UnmarshalJSON accepts a namespace as {name: …} or as a plain string. Anything else in the object is an error, since the
// strict decoder does not look into a type that decodes itself.
func (n *NamespaceSelector) UnmarshalJSON(data []byte) error {
	switch first(data) {
	case 'n': // null
		return nil
	case '"':
		n.Plain = true
		return json.UnmarshalCaseSensitivePreserveInts(data, &n.Name)
	}
	type plain NamespaceSelector
	var out plain
	if err := closed(data, &out, "namespace selector"); err != nil {
		return err
	}
	*n = NamespaceSelector(out)
	return nil
}

// MarshalJSON writes the selector in the form that it was read in.
func (n NamespaceSelector) MarshalJSON() ([]byte, error) {
	if n.Plain {
		return stdjson.Marshal(n.Name)
	}
	type plain NamespaceSelector
	return stdjson.Marshal(plain(n))
}

// UnmarshalJSON accepts the selectors as a list or as a single object.
func (s *NonResourceSelectors) UnmarshalJSON(data []byte) error {
	switch first(data) {
	case 'n': // null
		return nil
	case '{':
		var one NonResourceSelector
		if err := closed(data, &one, "nonResourceSelectors"); err != nil {
			return err
		}
		one.Single = true
		*s = NonResourceSelectors{one}
		return nil
	}
	var out []NonResourceSelector
	if err := closed(data, &out, "nonResourceSelectors"); err != nil {
		return err
	}
	*s = out
	return nil
}

// MarshalJSON writes the selectors in the form that they were read in.
func (s NonResourceSelectors) MarshalJSON() ([]byte, error) {
	if len(s) == 1 && s[0].Single {
		return stdjson.Marshal(s[0])
	}
	return stdjson.Marshal([]NonResourceSelector(s))
}

// closed decodes strictly: an unknown or a repeated key is an error.
func closed(data []byte, into any, subject string) error {
	strict, err := json.UnmarshalStrict(data, into)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	if len(strict) > 0 {
		return fmt.Errorf("%s: %w", subject, strict[0])
	}
	return nil
}

// first returns the first byte of the JSON value, 0 if there is none.
func first(data []byte) byte {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 {
		return 0
	}
	return data[0]
}
