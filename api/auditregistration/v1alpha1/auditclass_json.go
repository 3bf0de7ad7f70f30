package v1alpha1

import (
	"bytes"
	"fmt"

	"sigs.k8s.io/json"
)

// UnmarshalJSON accepts the spellings Users and Group and normalises them. Any other text is kept for validation to refuse.
func (t *SubjectType) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &s); err != nil {
		return fmt.Errorf("type of a subject: %w", err)
	}
	*t = SubjectType(s).normalised()
	return nil
}

func (t SubjectType) normalised() SubjectType {
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
