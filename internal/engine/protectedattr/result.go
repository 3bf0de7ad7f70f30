package protectedattr

import (
	"slices"
	"strconv"
	"strings"
)

// Result is what a check found. The zero value refuses.
type Result struct {
	allowed bool
	refusal *Refusal
	err     error
}

// Allowed reports whether protected attributes allow the write.
func (v Result) Allowed() bool { return v.allowed }

// Refusal says what was refused, or is nil if the write is allowed or could not be examined.
func (v Result) Refusal() *Refusal { return v.refusal }

// Reason is the message for the caller; empty if allowed.
func (v Result) Reason() string {
	switch {
	case v.allowed:
		return ""
	case v.refusal != nil:
		return v.refusal.String()
	case v.err != nil:
		return "protected attributes could not be examined: " + v.err.Error()
	}
	return "protected attributes were not examined"
}

// Refusal is the first protected value that the caller may not touch. Which one is first depends only on the object:
// its own metadata before its templates, labels before annotations, keys in order.
type Refusal struct {
	Attribute Attribute
	Key       string
	// Value is the protected one: what would be set, or what would be replaced or removed.
	Value string
	// Where is the place of a template's metadata, such as .spec.template.metadata; empty for the object's own.
	Where string
	// Removed is set if Value is on the stored object and would no longer be.
	Removed bool
	// Unlisted is set if no user may set Value, because it is not among the permitted values (PA-14), which are in
	// Listed.
	Unlisted bool
	Listed   []string
	// Protections that cover the value at the level that refused; being bound to the role of any one of them is enough.
	Protections []Named
}

// Named is a protection as a caller may see it.
type Named struct {
	Kind, Name string
	Role       Role
	// Unreadable is true if the object does not say what it protects and from whom.
	Unreadable bool
}

// maxNamed keeps a refusal readable when many protections cover one value.
const maxNamed = 3

// String is the message of PA-7.
func (r *Refusal) String() string {
	var b strings.Builder
	b.WriteString(r.Attribute.String())
	b.WriteByte(' ')
	b.WriteString(r.Key)
	b.WriteByte('=')
	b.WriteString(shown(r.Value))
	if r.Where != "" {
		b.WriteString(" in ")
		b.WriteString(r.Where)
	}
	if r.Unlisted {
		return b.String() + " is not a value that may be used: " + r.onlyListed()
	}
	b.WriteString(" is protected by ")
	var by, roles []string
	if len(r.Protections) > 0 && r.Protections[0].Unreadable {
		for _, p := range r.Protections {
			by = appendNew(by, p.Kind+" "+quote(p.Name))
		}
		return b.String() + enumerate(by, "and") + ", which cannot be read: until a cluster admin repairs or deletes it, changing labels and annotations requires a right that is granted for the whole cluster"
	}
	for _, p := range r.Protections {
		by = appendNew(by, p.Kind+" "+quote(p.Name))
		roles = appendNew(roles, p.Role.String())
	}
	b.WriteString(enumerate(by, "and"))
	b.WriteString("; changing it requires being bound to ")
	b.WriteString(enumerate(roles, "or"))
	return b.String()
}

// onlyListed names the permitted values, and the protections that list them.
func (r *Refusal) onlyListed() string {
	var by []string
	for _, p := range r.Protections {
		by = appendNew(by, p.Kind+" "+quote(p.Name))
	}
	return enumerate(by, "and") + " allows only " + listed(r.Listed)
}

func appendNew(list []string, more ...string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// enumerate joins with commas and a last conjunction, and cuts off a long tail.
func enumerate(list []string, conjunction string) string {
	if len(list) > maxNamed {
		rest := len(list) - maxNamed
		list = append(list[:maxNamed:maxNamed], strconv.Itoa(rest)+" more")
	}
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " " + conjunction + " " + list[last]
}

func quote(s string) string { return strconv.Quote(s) }

// maxShown keeps a refusal readable when the value is an annotation of a quarter of a megabyte.
const maxShown = 100

// shown returns a value unchanged if it is a valid label value; otherwise it is quoted and cut.
func shown(value string) string {
	plain := len(value) <= maxShown
	for i := 0; plain && i < len(value); i++ {
		plain = value[i] > ' ' && value[i] < 0x7f
	}
	if plain {
		return value
	}
	if len(value) > maxShown {
		return quote(strings.ToValidUTF8(value[:maxShown], "")) + "..."
	}
	return quote(value)
}
