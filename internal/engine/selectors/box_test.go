package selectors

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// thing is an object with one label, which it may lack, and one field.
type thing struct {
	label *string
	field string
}

func things() (all []thing) {
	a, b, c := "a", "b", "c"
	for _, label := range []*string{nil, &a, &b, &c} {
		for _, field := range []string{"", "x", "y"} {
			all = append(all, thing{label, field})
		}
	}
	return all
}

var (
	someLabel = Key{Label: true, Name: "l"}
	someField = Key{Name: "f"}
)

// boxes are all that the label and the field can be narrowed to, with sets of up to two values.
func boxes() []Box {
	all := []Box{{}, Nothing()}
	for _, l := range []Values{Of("a"), Of("b"), Of("a", "b"), Of("a").OrAbsent(), Of().OrAbsent(), AllBut(), AllBut("a"), AllBut("a", "b").OrAbsent(), AllBut("c").OrAbsent()} {
		all = append(all, Box{}.With(someLabel, l))
		for _, f := range []Values{Of("x"), Of("x", "y"), AllBut("x"), Of("")} {
			all = append(all, Box{}.With(someField, f), Box{}.With(someLabel, l).With(someField, f))
		}
	}
	return all
}

// holds is what a box means, by its definition.
func holds(b Box, o thing) bool {
	if b.none {
		return false
	}
	l, narrowed := b.keys[someLabel]
	if narrowed && (o.label == nil && !l.Absent || o.label != nil && !l.Has(*o.label)) {
		return false
	}
	f, narrowed := b.keys[someField]
	return !narrowed || f.Has(o.field)
}

// matches is what a server makes of selectors, with upstream's code.
func matches(ls []labels.Requirement, fs []fields.Requirement, o thing) bool {
	set := labels.Set{}
	if o.label != nil {
		set["l"] = *o.label
	}
	for _, r := range fs {
		if (o.field == r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return !slices.ContainsFunc(ls, func(r labels.Requirement) bool { return !r.Matches(set) })
}

// RD-4: selectors show exactly what is in the box; a union and an intersection of boxes hold what they should; a box
// that no selector can say is an error and never a wider one.
func TestSelectorsShowTheBox(t *testing.T) {
	said := 0
	for _, a := range boxes() {
		if ls, fs, err := a.Selectors(); err == nil {
			said++
			for _, o := range things() {
				if got := matches(ls, fs, o); got != holds(a, o) {
					t.Errorf("%s shows %+v: %v", a, o, got)
				}
			}
			if back := Selected(ls, fs); !a.none && !back.Equal(a) {
				t.Errorf("%s, read from its selectors, is %s", a, back)
			}
		}
		for _, b := range boxes() {
			both, within := a.And(b), a.Within(b)
			either, err := Union(a, b)
			for _, o := range things() {
				if got := holds(both, o); got != (holds(a, o) && holds(b, o)) {
					t.Errorf("%+v and %+v: %+v: %v", a, b, o, got)
				}
				if err == nil && holds(either, o) != (holds(a, o) || holds(b, o)) {
					t.Errorf("%+v or %+v: %+v: %v", a, b, o, holds(either, o))
				}
				if within && holds(a, o) && !holds(b, o) {
					t.Errorf("%+v is not within %+v: %+v", a, b, o)
				}
			}
		}
	}
	if said < 20 {
		t.Errorf("only %d boxes can be said", said)
	}
}
