package fieldperm

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path is the place of a field, or of many: .metadata.labels[example.com/x], .spec.containers[].image.
type Path []Element

// Element is one step of a path: a field of an object, or an entry of a map or list.
type Element struct {
	// Name is the field's name, or the entry's key: the key of a map, the value of a set's member, the key of a list's
	// element ("app", or "port=80,protocol=TCP" where the key has several fields).
	Name string
	// Bracket is true for an entry, false for a field.
	Bracket bool
	// Any stands for every entry, written []. Name is empty then.
	Any bool
}

// Field returns a step to a field.
func Field(name string) Element { return Element{Name: name} }

// Key returns a step to one entry of a map or list.
func Key(key string) Element { return Element{Name: key, Bracket: true} }

// Any returns a step to every entry of a map or list.
func Any() Element { return Element{Bracket: true, Any: true} }

const (
	maxPathLength = 1024
	maxPathDepth  = 64
)

// ParsePath reads a path. The text of a Path parses back to it.
func ParsePath(text string) (Path, error) {
	switch {
	case text == "":
		return nil, fmt.Errorf("field must be set, such as .spec.nodeName")
	case len(text) > maxPathLength:
		return nil, fmt.Errorf("field must be at most %d bytes long", maxPathLength)
	case !utf8.ValidString(text):
		return nil, fmt.Errorf("field must be valid UTF-8")
	case text[0] != '.':
		return nil, fmt.Errorf("field %q must start with a dot, such as .spec.nodeName", text)
	}
	var p Path
	for rest := text; rest != ""; {
		var e Element
		var err error
		if rest[0] == '.' {
			e, rest, err = parseField(rest[1:])
		} else {
			e, rest, err = parseBracket(rest)
		}
		if err != nil {
			return nil, fmt.Errorf("field %q %w", text, err)
		}
		if p = append(p, e); len(p) > maxPathDepth {
			return nil, fmt.Errorf("field must be at most %d levels deep", maxPathDepth)
		}
	}
	return p, nil
}

func parseField(text string) (Element, string, error) {
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		end = len(text)
	}
	name, rest := text[:end], text[end:]
	if name == "" {
		return Element{}, "", fmt.Errorf("must have a name after each dot")
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !plainRune(r) }); i >= 0 {
		return Element{}, "", fmt.Errorf("has %q in a field's name: write it as a quoted key in brackets, such as [\"a b\"]", rune(name[i]))
	}
	return Field(name), rest, nil
}

func plainRune(r rune) bool {
	return r == '_' || r == '-' || r == '$' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func parseBracket(text string) (Element, string, error) {
	if text[0] != '[' {
		return Element{}, "", fmt.Errorf("must have a dot or a bracket before %q", text)
	}
	text = text[1:]
	if strings.HasPrefix(text, `"`) {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return Element{}, "", fmt.Errorf("has a quoted key that does not end")
		}
		key, err := strconv.Unquote(quoted)
		if err != nil || !utf8.ValidString(key) {
			return Element{}, "", fmt.Errorf("has a quoted key that cannot be read")
		}
		rest, ok := strings.CutPrefix(text[len(quoted):], "]")
		if !ok {
			return Element{}, "", fmt.Errorf("must have a closing bracket after the key %s", quoted)
		}
		return Key(key), rest, nil
	}
	key, rest, ok := strings.Cut(text, "]")
	switch {
	case !ok:
		return Element{}, "", fmt.Errorf("must have a closing bracket for each opening one")
	case key == "":
		return Any(), rest, nil
	case !plainKey(key):
		return Element{}, "", fmt.Errorf("has a key with brackets, quotes or spaces: write it in quotes, such as [%s]", strconv.Quote(key))
	}
	return Key(key), rest, nil
}

// plainKey reports whether a key needs no quotes in brackets.
func plainKey(key string) bool {
	return key != "" && strings.IndexFunc(key, func(r rune) bool {
		return r <= ' ' || r == '[' || r == ']' || r == '"' || r == '\\' || r == '`' || r == 0x7f || r == utf8.RuneError || !strconv.IsPrint(r)
	}) < 0
}

// String returns the path as people write it.
func (p Path) String() string {
	var b strings.Builder
	for _, e := range p {
		e.write(&b)
	}
	return b.String()
}

func (e Element) write(b *strings.Builder) {
	switch {
	case e.Any:
		b.WriteString("[]")
	case !e.Bracket && e.Name != "" && strings.IndexFunc(e.Name, func(r rune) bool { return !plainRune(r) }) < 0:
		b.WriteByte('.')
		b.WriteString(e.Name)
	case e.Bracket && plainKey(e.Name):
		b.WriteByte('[')
		b.WriteString(e.Name)
		b.WriteByte(']')
	default:
		b.WriteByte('[')
		b.WriteString(strconv.Quote(e.Name))
		b.WriteByte(']')
	}
}

// compare orders paths by their elements: fields before entries, then by name, a parent before its children.
func (p Path) compare(q Path) int {
	for i := range min(len(p), len(q)) {
		if c := p[i].compare(q[i]); c != 0 {
			return c
		}
	}
	return len(p) - len(q)
}

func (e Element) compare(f Element) int {
	if e.Bracket != f.Bracket {
		if f.Bracket {
			return -1
		}
		return 1
	}
	return strings.Compare(e.Name, f.Name)
}

// Covers reports whether a field is at this path or below it. Empty brackets match every entry, and a key matches
// whether it is written as a field or in brackets.
func (p Path) Covers(field Path) bool {
	if len(field) < len(p) {
		return false
	}
	for i, e := range p {
		if e.Any && !field[i].Bracket || !e.Any && e.Name != field[i].Name {
			return false
		}
	}
	return true
}

// hasPrefix reports whether p starts with q.
func (p Path) hasPrefix(q Path) bool {
	if len(p) < len(q) {
		return false
	}
	for i := range q {
		if p[i] != q[i] {
			return false
		}
	}
	return true
}

// under returns the path below root.
func (p Path) under(root Path) Path {
	return append(append(make(Path, 0, len(root)+len(p)), root...), p...)
}

// Under returns the path below another one.
func (p Path) Under(root Path) Path { return p.under(root) }

// bracketed reports whether the path goes through a map or list.
func (p Path) bracketed() bool {
	for _, e := range p {
		if e.Bracket {
			return true
		}
	}
	return false
}
