package selectors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Key is a label or a field.
type Key struct {
	Label bool
	Name  string
}

func (k Key) compare(o Key) int {
	if k.Label != o.Label {
		if k.Label {
			return -1
		}
		return 1
	}
	return strings.Compare(k.Name, o.Name)
}

// Box is a conjunction: each key has its set of values, and a key that is not listed has any. The zero Box holds every
// object.
type Box struct {
	keys map[Key]Values
	// none is true if no object is in it.
	none bool
}

// Selected returns the box of what a list with selectors returns, or a larger one.
func Selected(ls []labels.Requirement, fs fields.Requirements) Box {
	var b Box
	for _, r := range ls {
		key, values := Key{Label: true, Name: r.Key()}, r.ValuesUnsorted()
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			b = b.With(key, Of(values...))
		case selection.NotEquals, selection.NotIn:
			b = b.With(key, AllBut(values...).OrAbsent())
		case selection.Exists, selection.GreaterThan, selection.LessThan:
			b = b.With(key, AllBut())
		case selection.DoesNotExist:
			b = b.With(key, Of().OrAbsent())
		}
	}
	for _, r := range fs {
		values := Of(r.Value)
		if r.Operator == selection.NotEquals {
			values = AllBut(r.Value)
		}
		b = b.With(Key{Name: r.Field}, values)
	}
	return b
}

// Nothing returns the box without objects.
func Nothing() Box { return Box{none: true} }

// With narrows a key.
func (b Box) With(key Key, values Values) Box {
	if b.none {
		return b
	}
	if old, ok := b.keys[key]; ok {
		values = old.and(values)
	}
	if !key.Label {
		values.Absent = false
	}
	if values.isEmpty() {
		return Nothing()
	}
	out := Box{keys: maps.Clone(b.keys)}
	if out.keys == nil {
		out.keys = map[Key]Values{}
	}
	if values.Not && len(values.List) == 0 && (values.Absent || !key.Label) {
		delete(out.keys, key) // any value
	} else {
		out.keys[key] = values
	}
	return out
}

// And returns the intersection of two boxes.
func (b Box) And(o Box) Box {
	if o.none {
		return o
	}
	for key, values := range o.keys {
		b = b.With(key, values)
	}
	return b
}

// IsNothing reports whether no object is in it.
func (b Box) IsNothing() bool { return b.none }

// IsEverything reports whether all objects are in it.
func (b Box) IsEverything() bool { return !b.none && len(b.keys) == 0 }

// Equal reports whether two boxes hold the same objects.
func (b Box) Equal(o Box) bool {
	return b.none == o.none && maps.EqualFunc(b.keys, o.keys, Values.equal)
}

// Within reports whether the box is contained in the other one.
func (b Box) Within(o Box) bool {
	if b.none || o.none {
		return b.none
	}
	for key, values := range o.keys {
		have, ok := b.keys[key]
		if !ok || !have.within(values) {
			return false
		}
	}
	return true
}

// sayable reports whether selectors can express it: there is no `or` between absence and a value of a label, and none
// between values of a field.
func (b Box) sayable() bool {
	for key, values := range b.keys {
		switch {
		case key.Label && values.Absent && !values.Not && len(values.List) > 0:
			return false
		case !key.Label && !values.Not && len(values.List) > 1:
			return false
		}
	}
	return true
}

// TooWide is the error of a union that selectors cannot express. Each part can be asked for separately.
type TooWide struct{ Parts []Box }

// Choices returns the boxes that can be asked for, one at a time.
func (e *TooWide) Choices() []Box {
	var all []Box
	for _, p := range e.Parts {
		all = append(all, p.split()...)
	}
	return all
}

func (e *TooWide) Error() string {
	var parts []string
	for _, one := range e.Choices() {
		parts = append(parts, one.String())
	}
	slices.Sort(parts)
	const shown = 8
	more := ""
	if parts = slices.Compact(parts); len(parts) > shown {
		parts, more = parts[:shown], ", …"
	}
	return "no single selector says what the conditions allow together; give one of these selectors: " + strings.Join(parts, ", or ") + more
}

var errNoSelector = errors.New("no selector says what the condition allows")

// Union joins boxes into one that selectors can express. Boxes that differ in one key become one; a box within another
// one adds nothing.
func Union(boxes ...Box) (Box, error) {
	var parts []Box
	for _, b := range boxes {
		if !b.none {
			parts = append(parts, b)
		}
	}
	for merged := true; merged && len(parts) > 1; {
		parts, merged = mergeOnce(parts)
	}
	switch {
	case len(parts) == 0:
		return Nothing(), nil
	case len(parts) == 1 && parts[0].sayable():
		return parts[0], nil
	}
	for _, p := range parts {
		if len(p.split()) == 0 {
			return Box{}, errNoSelector
		}
	}
	return Box{}, &TooWide{Parts: parts}
}

// mergeOnce merges the first two boxes that can be merged.
func mergeOnce(parts []Box) ([]Box, bool) {
	for i := range parts {
		for j := i + 1; j < len(parts); j++ {
			if one, ok := merge(parts[i], parts[j]); ok {
				rest := slices.Delete(slices.Clone(parts), j, j+1)
				rest[i] = one
				return rest, true
			}
		}
	}
	return parts, false
}

func merge(a, b Box) (Box, bool) {
	switch {
	case a.Within(b):
		return b, true
	case b.Within(a):
		return a, true
	case len(a.keys) != len(b.keys):
		return Box{}, false
	}
	var differs []Key
	for key, values := range a.keys {
		other, ok := b.keys[key]
		if !ok {
			return Box{}, false
		}
		if !values.equal(other) {
			differs = append(differs, key)
		}
	}
	if len(differs) != 1 {
		return Box{}, false
	}
	key := differs[0]
	rest := Box{keys: maps.Clone(a.keys)}
	delete(rest.keys, key)
	one := rest.With(key, a.keys[key].or(b.keys[key]))
	return one, one.sayable() || !a.sayable() || !b.sayable()
}

// split returns boxes that selectors can express and that together equal this one. It is empty if there are none, or
// too many.
func (b Box) split() []Box {
	parts := []Box{b}
	for key, values := range b.keys {
		var next []Box
		for _, p := range parts {
			for _, v := range values.split(key.Label) {
				one := Box{keys: maps.Clone(p.keys)}
				one.keys[key] = v
				next = append(next, one)
			}
		}
		if parts = next; len(parts) > 64 {
			return nil
		}
	}
	return parts
}

func (v Values) split(label bool) []Values {
	switch {
	case label && v.Absent && !v.Not && len(v.List) > 0:
		return []Values{{Absent: true}, {List: v.List}}
	case !label && !v.Not && len(v.List) > 1:
		var out []Values
		for _, s := range v.List {
			out = append(out, Values{List: []string{s}})
		}
		return out
	}
	return []Values{v}
}

// No object both has and lacks a key: requiring both selects nothing.
const noneKey = "policy.proviso.dev/none"

// Selectors returns the requirements that express it, in a fixed order. It fails for a box that selectors cannot
// express.
func (b Box) Selectors() ([]labels.Requirement, []fields.Requirement, error) {
	if b.none {
		return both(noneKey)
	}
	if !b.sayable() {
		return nil, nil, errNoSelector
	}
	var ls []labels.Requirement
	var fs []fields.Requirement
	for _, key := range slices.SortedFunc(maps.Keys(b.keys), Key.compare) {
		values := b.keys[key]
		if !key.Label {
			for _, v := range values.List {
				op := selection.Equals
				if values.Not {
					op = selection.NotEquals
				}
				fs = append(fs, fields.Requirement{Operator: op, Field: key.Name, Value: v})
			}
			continue
		}
		for _, r := range requirements(values) {
			one, err := labels.NewRequirement(key.Name, r.op, r.values)
			if err != nil {
				return nil, nil, fmt.Errorf("label %q: %w", key.Name, err)
			}
			ls = append(ls, *one)
		}
	}
	return ls, fs, nil
}

func both(key string) ([]labels.Requirement, []fields.Requirement, error) {
	has, err := labels.NewRequirement(key, selection.Exists, nil)
	if err != nil {
		return nil, nil, err
	}
	lacks, err := labels.NewRequirement(key, selection.DoesNotExist, nil)
	if err != nil {
		return nil, nil, err
	}
	return []labels.Requirement{*has, *lacks}, nil, nil
}

type requirement struct {
	op     selection.Operator
	values []string
}

// requirements returns the requirements for a label. A negative one also matches objects without the key, so it is
// combined with the requirement that the key exists.
func requirements(v Values) []requirement {
	switch {
	case !v.Not && v.Absent:
		return []requirement{{selection.DoesNotExist, nil}}
	case !v.Not && len(v.List) == 1:
		return []requirement{{selection.Equals, v.List}}
	case !v.Not:
		return []requirement{{selection.In, v.List}}
	case len(v.List) == 0:
		return []requirement{{selection.Exists, nil}}
	}
	out := []requirement{{selection.NotIn, v.List}}
	if len(v.List) == 1 {
		out[0].op = selection.NotEquals
	}
	if !v.Absent {
		out = append([]requirement{{selection.Exists, nil}}, out...)
	}
	return out
}

// String returns the options of a list, as a user would type them.
func (b Box) String() string {
	ls, fs, err := b.Selectors()
	if err != nil {
		return err.Error()
	}
	var parts []string
	if text := LabelText(ls); text != "" {
		parts = append(parts, "labelSelector "+text)
	}
	if text := FieldText(fs); text != "" {
		parts = append(parts, "fieldSelector "+text)
	}
	if len(parts) == 0 {
		return "no selector"
	}
	return strings.Join(parts, " and ")
}

// LabelText is a label selector as text.
func LabelText(rs []labels.Requirement) string {
	parts := make([]string, len(rs))
	for i := range rs {
		parts[i] = rs[i].String()
	}
	return strings.Join(parts, ",")
}

// FieldText is a field selector as text.
func FieldText(rs fields.Requirements) string {
	parts := make([]string, len(rs))
	for i, r := range rs {
		op := "="
		if r.Operator == selection.NotEquals {
			op = "!="
		}
		parts[i] = r.Field + op + fields.EscapeValue(r.Value)
	}
	return strings.Join(parts, ",")
}
