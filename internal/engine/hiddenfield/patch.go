package hiddenfield

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// Refused is the error of a patch that would reveal something about a hidden field, or remove it.
type Refused struct {
	Hidden fieldperm.Hidden
	What   string
}

// ErrUnreadable is the error of an invalid patch.
var ErrUnreadable = errors.New("the patch cannot be read")

// Error implements error.
func (r *Refused) Error() string {
	return fmt.Sprintf("%s is refused: the field %s is hidden from you, and that takes %s (%s)", r.What, r.Hidden.Field, r.Hidden.Verb(), r.Hidden.Source)
}

// relation says where a place of a patch is relative to a hidden field.
type relation int

const (
	apart relation = iota
	above
	at
	below
)

func relate(tokens []string, hidden fieldperm.Path) relation {
	for i := range min(len(tokens), len(hidden)) {
		if !hidden[i].Any && hidden[i].Name != tokens[i] {
			return apart
		}
	}
	switch {
	case len(tokens) < len(hidden):
		return above
	case len(tokens) == len(hidden):
		return at
	}
	return below
}

// Touched lists the hidden fields that a JSON patch or a merge patch sets.
func (s Set) Touched(body []byte) Set {
	var operations []map[string]json.RawMessage
	var merged map[string]any
	isJSONPatch := json.Unmarshal(body, &operations) == nil
	if !isJSONPatch {
		merged, _ = decode(body) // it was read when it was checked
	}
	var all Set
	for _, f := range s {
		touched := false
		for _, at := range spellings(f.Field) {
			touched = touched || merged != nil && holds(reflect.ValueOf(merged), at)
			for _, o := range operations {
				touched = touched || relate(pointer(text(o["path"])), at) != apart
			}
		}
		if touched {
			all = append(all, f)
		}
	}
	return all
}

// JSONPatch checks a JSON patch, and returns it with every replace of a hidden field as an add, which does the same but
// does not reveal whether the field existed. It is encoded from what was parsed here, so the handler cannot parse it
// differently.
func (s Set) JSONPatch(body []byte) ([]byte, error) {
	var operations []map[string]json.RawMessage
	if err := json.Unmarshal(body, &operations); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	for _, o := range operations {
		for _, f := range s {
			for _, p := range Places(f) {
				if err := p.check(o, f); err != nil {
					return nil, err
				}
			}
		}
	}
	return json.Marshal(operations)
}

func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // the handler refuses a value that is not a string
	return s
}

// pointer parses a JSON pointer as the handler does: text before the first slash is ignored.
func pointer(path string) []string {
	parts := strings.Split(path, "/")[1:]
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts
}

// MergePatch checks a merge patch, or a strategic one, and returns it encoded from what was parsed here.
func (s Set) MergePatch(body []byte, strategic bool) ([]byte, error) {
	content, err := decode(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	for _, f := range s {
		m := merging{f, strategic}
		if err := m.check(content, f.Field, nil); err != nil {
			return nil, err
		}
	}
	return json.Marshal(content)
}

// merging checks a merge patch for one hidden field.
type merging struct {
	hidden    fieldperm.Hidden
	strategic bool
}

func (m merging) refuse(what string, from fieldperm.Path) error {
	return &Refused{m.hidden, what + " " + from.String()}
}

// check checks what the patch has on the path to the field, and below it.
func (m merging) check(patch any, rest, from fieldperm.Path) error {
	switch value := patch.(type) {
	case nil:
		return m.refuse("removing", from)
	case map[string]any:
		return m.object(value, rest, from)
	case []any:
		return m.list(value, rest, from)
	}
	if len(rest) > 0 {
		return m.refuse("replacing", from)
	}
	return nil
}

func (m merging) object(value map[string]any, rest, from fieldperm.Path) error {
	for name := range value {
		if directive, _, _ := strings.Cut(name, "/"); m.strategic && strings.HasPrefix(name, "$") && directive != "$setElementOrder" {
			return m.refuse("the directive "+directive+" on", from)
		}
	}
	for name, child := range value {
		switch {
		case m.strategic && strings.HasPrefix(name, "$"):
			continue
		case len(rest) > 0 && !rest[0].Any && rest[0].Name != name:
			continue
		}
		here := append(from[:len(from):len(from)], fieldperm.Field(name))
		below := rest
		if len(rest) > 0 {
			below = rest[1:]
		}
		if err := m.check(child, below, here); err != nil {
			return err
		}
	}
	return nil
}

// list looks at the elements. A list that replaces another one is compared with it in admission.
func (m merging) list(value []any, rest, from fieldperm.Path) error {
	if len(rest) == 0 || !rest[0].Bracket {
		return nil
	}
	for _, element := range value {
		if element == nil {
			continue
		}
		if err := m.check(element, rest[1:], append(from[:len(from):len(from)], fieldperm.Any())); err != nil {
			return err
		}
	}
	return nil
}

// isAbove reports whether the text of a conflict names a container of a hidden field.
func isAbove(field string, hidden fieldperm.Path) bool {
	p, err := fieldperm.ParsePath(field)
	return err == nil && len(p) < len(hidden) && relate(namesOf(p), hidden) == above
}

func namesOf(p fieldperm.Path) (names []string) {
	for _, e := range p {
		names = append(names, e.Name)
	}
	return names
}

// InConflict finds the hidden field that a conflict of server-side apply may be about, or about a copy of it. It errs
// towards hidden: the text of a conflict does not always show where the name of a field ends.
func (s Set) InConflict(field string) (fieldperm.Hidden, bool) {
	for _, f := range s {
		if slices.ContainsFunc(append(spellings(f.Field), appliedPath), func(at fieldperm.Path) bool { return isIn(field, at) }) {
			return f, true
		}
	}
	return fieldperm.Hidden{}, false
}

// isIn reports whether a field, as a conflict names it, is at a path, below it, or managed as a whole with the path in
// it. A path that cannot be read counts.
func isIn(field string, at fieldperm.Path) bool {
	if isAbove(field, at) {
		return true
	}
	pattern := "^"
	for _, e := range at {
		switch {
		case e.Any:
			pattern += `(?:\[.*\]|\..+)`
		case e.Bracket:
			pattern += `(?:\[.*\]|\.` + regexp.QuoteMeta(e.Name) + `)`
		default:
			pattern += `\.` + regexp.QuoteMeta(e.Name)
		}
	}
	found, err := regexp.MatchString(pattern+`(?:[.\[]|$)`, field)
	return err != nil || found
}
