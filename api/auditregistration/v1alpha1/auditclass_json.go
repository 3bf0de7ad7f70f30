package v1alpha1

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"

	"sigs.k8s.io/json"
)

// UnmarshalJSON accepts the spellings Users and Group and normalises them. Any other text is kept for validation to
// refuse.
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

// UnmarshalJSON remembers whether there is a group, so that applying a file without one again changes nothing. Unknown
// keys are an error, since the strict decoder does not look into a type that decodes itself.
func (s *GroupResourceSelector) UnmarshalJSON(data []byte) error {
	if first(data) == 'n' {
		return nil
	}
	type plain GroupResourceSelector
	out := struct {
		*plain
		Group *string `json:"group"`
	}{plain: &plain{}}
	if err := closed(data, &out, "group resource selector"); err != nil {
		return err
	}
	*s = GroupResourceSelector(*out.plain)
	if s.NoGroup = out.Group == nil; !s.NoGroup {
		s.Group = *out.Group
	}
	return nil
}

// MarshalJSON leaves the group out if it was.
func (s GroupResourceSelector) MarshalJSON() ([]byte, error) {
	type plain GroupResourceSelector
	out := struct {
		Group *string `json:"group,omitempty"`
		*plain
	}{plain: (*plain)(&s)}
	if !s.NoGroup || s.Group != "" {
		out.Group = &s.Group
	}
	return stdjson.Marshal(out)
}

// UnmarshalJSON accepts a namespace as {name: …} or as a plain string. Anything else in the object is an error, since
// the strict decoder does not look into a type that decodes itself.
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
