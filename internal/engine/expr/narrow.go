package expr

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"

	"proviso.dev/proviso/internal/engine/selectors"
)

// Narrower is a condition that can itself compute equivalent selectors.
type Narrower interface {
	// Narrow returns the objects that meet the condition, among those that the selectors of the request leave. It must
	// not return others, and fails if selectors cannot express the condition.
	Narrow(req *Request, fields []SelectableField) (selectors.Box, error)
}

// Narrow returns what has to be added to the selectors of a list or watch for
// it to return only objects that meet the condition (RD-2). It may leave out
// objects whose field is missing or empty, because selectors cannot distinguish
// these; it never includes objects that do not meet the condition.
func Narrow(c Condition, req *Request, fields []SelectableField) (selectors.Box, error) {
	if c == nil || req == nil {
		return selectors.Box{}, errNotSelectable
	}
	if Implied(c, req, fields) {
		return selectors.Box{}, nil
	}
	if n, ok := c.(Narrower); ok {
		return n.Narrow(req, fields)
	}
	return selectors.Box{}, errNotSelectable
}

var (
	errNotSelectable = errors.New("the condition is not about labels and fields that this resource can be selected by")
	errNotConjunct   = errors.New("no selector says what the condition allows: it is more than a conjunction of labels and fields")
	errTooManyWorlds = errors.New("the condition compares with too many values to be said by selectors")
	errLeavesOut     = errors.New("no selector tells a missing field from an empty one")
	errNamespace     = errors.New("the condition is about the namespace: list in one namespace")
)

// Hull returns a box that contains every object that meets the condition, and may contain others: the part of a
// condition that selectors can express if they cannot express all of it (RD-10).
func Hull(c Condition, req *Request, fields []SelectableField) selectors.Box {
	switch c := c.(type) {
	case nil:
		return selectors.Box{}
	case all:
		var box selectors.Box
		for _, part := range c {
			box = box.And(Hull(part, req, fields))
		}
		return box
	}
	if box, err := Exactly(c, req, fields); err == nil {
		return box
	}
	return selectors.Box{}
}

// Exactly is Narrow that fails where it would leave out objects that meet the
// condition.
func Exactly(c Condition, req *Request, fields []SelectableField) (selectors.Box, error) {
	if c == nil || req == nil {
		return selectors.Box{}, errNotSelectable
	}
	if Implied(c, req, fields) {
		return selectors.Box{}, nil
	}
	switch c := c.(type) {
	case all:
		var box selectors.Box
		for _, part := range c {
			one, err := Exactly(part, req, fields)
			if err != nil {
				return selectors.Box{}, err
			}
			box = box.And(one)
		}
		return box, nil
	case *Program:
		box, exact, err := c.narrow(req, fields)
		if err == nil && !exact {
			err = errLeavesOut
		}
		return box, err
	}
	return Narrow(c, req, fields)
}

// Narrow implements Narrower.
func (a all) Narrow(req *Request, fields []SelectableField) (selectors.Box, error) {
	var box selectors.Box
	for _, c := range a {
		one, err := Narrow(c, req, fields)
		if err != nil {
			return selectors.Box{}, err
		}
		box = box.And(one)
	}
	return box, nil
}

// Narrow implements Narrower. As in Implied, finitely many objects represent all. Those that meet the condition must be
// exactly the ones that a conjunction picks.
func (p *Program) Narrow(req *Request, fields []SelectableField) (selectors.Box, error) {
	box, _, err := p.narrow(req, fields)
	return box, err
}

// narrow also reports whether every object that meets the condition is in the
// box.
func (p *Program) narrow(req *Request, fields []SelectableField) (_ selectors.Box, exact bool, _ error) {
	if p.kind != Where {
		switch p.Decide(req, Allow).Truth() {
		case True:
			return selectors.Box{}, true, nil
		case False, Failed:
			return selectors.Nothing(), true, nil
		default:
			return selectors.Box{}, false, errNotSelectable
		}
	}
	if p.AimsAt(req) {
		return selectors.Box{}, false, errNotSelectable
	}
	folded, ok := p.folded(req)
	if !ok {
		return selectors.Box{}, false, errNotSelectable
	}
	if b, ok := boolLiteral(folded); ok {
		if b {
			return selectors.Box{}, true, nil
		}
		return selectors.Nothing(), true, nil
	}
	use, ok := attributesOf(folded, req, selectable(fields))
	if !ok {
		return selectors.Box{}, false, errNotSelectable
	}
	states := make([][]state, len(use))
	for i, a := range use {
		if _, others := a.values(req); a.free && others {
			return selectors.Box{}, false, errNotSelectable
		}
		if states[i] = a.states(req); len(states[i]) == 0 {
			return selectors.Nothing(), true, nil // the selectors of the request contradict each other
		}
	}
	worlds, err := p.tryWorlds(req, use, states)
	if err != nil {
		return selectors.Box{}, false, err
	}
	return boxOf(req, use, worlds)
}

// tried is one object with its result.
type tried struct {
	states []state
	holds  bool
}

// tryWorlds evaluates the condition for every object that matters.
func (p *Program) tryWorlds(req *Request, use []*attribute, states [][]state) (out []tried, err error) {
	err = p.eachWorld(req, use, states, func(current []state, holds bool) bool {
		out = append(out, tried{states: slices.Clone(current), holds: holds})
		return true
	})
	return out, err
}

// boxOf finds the conjunction that picks exactly the objects that meet the
// condition.
func boxOf(req *Request, use []*attribute, worlds []tried) (_ selectors.Box, exact bool, _ error) {
	if !slices.ContainsFunc(worlds, func(w tried) bool { return w.holds }) {
		return selectors.Nothing(), true, nil
	}
	picks := make([]*choice, len(use))
	for i, a := range use {
		picks[i] = newChoice(a, i, worlds)
	}
	for {
		wrong := slices.IndexFunc(worlds, func(w tried) bool { return !w.holds && allPick(picks, w) })
		if wrong < 0 {
			break
		}
		// An object is picked that must not be. If that is because selectors read a missing field as empty, leave out
		// objects with an empty field, too.
		i := slices.IndexFunc(picks, func(k *choice) bool { return !k.absent && k.canLeaveOut(worlds[wrong]) })
		if i < 0 {
			return selectors.Box{}, false, errNotConjunct
		}
		picks[i].leftOut = true
	}
	box := selectors.Box{}
	for _, k := range picks {
		var err error
		if box, err = k.add(box, req); err != nil {
			return selectors.Box{}, false, err
		}
	}
	if slices.ContainsFunc(worlds, func(w tried) bool { return w.holds && !allPick(picks, w) && !leavesOut(picks, w) }) {
		return selectors.Box{}, false, errNotConjunct
	}
	if box.IsNothing() && slices.ContainsFunc(picks, func(k *choice) bool { return k.leftOut }) {
		return selectors.Box{}, false, errNotConjunct // only missing or empty fields meet it
	}
	exact = !slices.ContainsFunc(worlds, func(w tried) bool {
		return w.holds && !allPick(picks, w) && slices.ContainsFunc(picks, func(k *choice) bool { return k.losesValue(w.states[k.index]) })
	})
	return box, exact, nil
}

func allPick(picks []*choice, w tried) bool {
	return !slices.ContainsFunc(picks, func(k *choice) bool { return !k.picks(w.states[k.index]) })
}

func leavesOut(picks []*choice, w tried) bool {
	return slices.ContainsFunc(picks, func(k *choice) bool { return k.leftOut && k.blank(w.states[k.index]) })
}

// choice is the constraint on one attribute.
type choice struct {
	*attribute
	index int
	// values are picked, others are not; rest stands for all values that are in neither.
	values, others []string
	rest           bool
	absent         bool
	leftOut        bool // blank fields are not picked
}

// newChoice picks the values of all objects that meet the condition.
func newChoice(a *attribute, index int, worlds []tried) *choice {
	k := &choice{attribute: a, index: index}
	known := map[string]bool{}
	for _, w := range worlds {
		s := w.states[index]
		switch {
		case s.value == nil:
			k.absent = k.absent || w.holds
		case s.stands:
			k.rest = k.rest || w.holds
		default:
			text := fmt.Sprint(s.value)
			known[text] = known[text] || w.holds
		}
	}
	for text, holds := range known {
		if holds {
			k.values = append(k.values, text)
		} else {
			k.others = append(k.others, text)
		}
	}
	return k
}

// blank reports whether selectors may read a field in this state as empty.
func (k *choice) blank(s state) bool {
	if k.label {
		return false
	}
	return s.value == nil || slices.Contains(zeroTexts[k.kind()], fmt.Sprint(s.value))
}

// losesValue reports whether an object is left out because its field has an empty value. A string of a built-in kind is
// never empty: it is missing instead.
func (k *choice) losesValue(s state) bool {
	if !k.leftOut || !k.blank(s) {
		return false
	}
	return s.value == nil || !k.field.typed || k.kind() != StringField
}

// zeroTexts are the texts that a missing field may be read as.
var zeroTexts = map[FieldType][]string{StringField: {""}, IntField: {"", "0"}, BoolField: {"", "false"}}

func (k *choice) canLeaveOut(w tried) bool {
	return !k.leftOut && k.direct && k.blank(w.states[k.index]) && k.field.key != "metadata.name"
}

// picks reports whether an object in this state is picked, or could be.
func (k *choice) picks(s state) bool {
	switch {
	case k.leftOut && k.blank(s):
		return false
	case s.value == nil && k.label:
		return k.absent
	case s.value == nil:
		return k.absent || slices.ContainsFunc(zeroTexts[k.kind()], k.picksText)
	case s.stands:
		return k.rest
	}
	text := fmt.Sprint(s.value)
	// A missing field is read like an empty one: picking one picks both.
	return k.picksText(text) || !k.label && k.absent && slices.Contains(zeroTexts[k.kind()], text)
}

func (k *choice) picksText(text string) bool {
	if slices.Contains(k.values, text) {
		return true
	}
	return k.rest && !slices.Contains(k.others, text)
}

// add adds the choice to the box.
func (k *choice) add(box selectors.Box, req *Request) (selectors.Box, error) {
	values := selectors.Of(k.values...)
	if k.rest {
		values = selectors.AllBut(k.others...)
	}
	if k.label {
		return k.addLabel(box, values)
	}
	switch {
	case k.leftOut && k.rest:
		values = selectors.AllBut(append(slices.Clone(k.others), zeroTexts[k.kind()]...)...)
	case k.leftOut:
		values = selectors.Of(slices.DeleteFunc(slices.Clone(k.values), func(v string) bool { return slices.Contains(zeroTexts[k.kind()], v) })...)
	case k.absent && k.rest:
		values = selectors.AllBut(slices.DeleteFunc(slices.Clone(k.others), func(v string) bool { return slices.Contains(zeroTexts[k.kind()], v) })...)
	case k.absent && k.kind() != StringField:
		return box, errNotConjunct // the text of a missing one is not certain
	case k.absent:
		values = selectors.Of(append(slices.Clone(k.values), "")...)
	}
	if k.kind() == BoolField && values.Has("true") && values.Has("false") && (k.absent || !k.mayBeAbsent(req)) {
		return box, nil
	}
	switch k.field.key {
	case "metadata.namespace":
		if req.Namespace != "" {
			return box, nil // the path says it
		}
		return box, errNamespace
	case "metadata.name":
		if !values.Not {
			// No object has a name that cannot be a part of a path.
			values = selectors.Of(slices.DeleteFunc(slices.Clone(values.List), func(v string) bool { return v == "" || len(content.IsPathSegmentName(v)) > 0 })...)
		} else {
			values = selectors.AllBut(slices.DeleteFunc(slices.Clone(values.List), func(v string) bool { return v == "" })...)
		}
	}
	return box.With(selectors.Key{Name: k.field.key}, values), nil
}

// addLabel leaves out invalid keys and values: no object has them.
func (k *choice) addLabel(box selectors.Box, values selectors.Values) (selectors.Box, error) {
	key := k.path[2]
	values.Absent = k.absent
	if key == "" || len(validation.IsQualifiedName(key)) > 0 {
		switch {
		case k.absent:
			return box, nil
		case key == "":
			return box, errNotConjunct // it asks for any label
		}
		return selectors.Nothing(), nil
	}
	values.List = slices.DeleteFunc(slices.Clone(values.List), func(v string) bool { return len(validation.IsValidLabelValue(v)) > 0 })
	return box.With(selectors.Key{Label: true, Name: key}, values), nil
}
