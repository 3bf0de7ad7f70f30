package expr

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// state is one possible state of an attribute: it has a value, or the path to it ends early, in a missing field or in
// null.
type state struct {
	value any // nil: the path ends early
	depth int // where it ends: at path[depth]
	null  bool
	// stands is true if the value represents all values that are in no comparison and no selector.
	stands bool
}

// states lists the states that match the selectors: the values that it is
// compared with or selected by, one that represents all others, and the ways of
// being absent. It is empty if the attribute is used in other ways but could
// have values that are not listed.
func (a *attribute) states(req *Request) []state {
	values, others := a.values(req)
	if a.free && others {
		return nil
	}
	var out []state
	for _, v := range values {
		out = append(out, state{value: v})
	}
	if others {
		out = append(out, state{value: a.other(a.candidates(req)), stands: true})
	}
	if a.field.typed && a.mayBeAbsent(req) {
		return append(out, state{depth: len(a.path) - 1})
	}
	if a.mayBeAbsent(req) {
		for depth := 1; depth < len(a.path); depth++ {
			out = append(out, state{depth: depth})
			if !a.inMetadata() {
				out = append(out, state{depth: depth, null: true})
			}
		}
		if !a.inMetadata() {
			out = append(out, state{depth: 0}, state{depth: 0, null: true})
		}
	}
	return out
}

func (a *attribute) inMetadata() bool { return a.path[0] == "metadata" }

// values returns the relevant values that match, and whether values that are in none of the comparisons and selectors
// match as well.
func (a *attribute) values(req *Request) (out []any, others bool) {
	candidates := a.candidates(req)
	for _, v := range candidates {
		if a.matches(req, v) && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	if a.kind() == BoolField {
		return out, false // both are candidates
	}
	return out, a.matches(req, a.other(candidates))
}

func (a *attribute) kind() FieldType {
	if a.label {
		return StringField
	}
	return a.field.typ
}

func (a *attribute) candidates(req *Request) []any {
	var out []any
	add := func(text string) {
		switch a.kind() {
		case StringField:
			out = append(out, text)
		case IntField:
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				out = append(out, n)
			}
		}
	}
	for _, c := range a.constant {
		switch v := c.(type) {
		case types.String:
			add(string(v))
		case types.Int:
			if a.kind() == IntField {
				out = append(out, int64(v))
			}
		case types.Uint:
			add(strconv.FormatUint(uint64(v), 10))
		case types.Double:
			add(strconv.FormatInt(int64(v), 10))
		}
	}
	if a.label {
		for _, r := range req.LabelSelector {
			if r.Key() == a.path[2] {
				for _, v := range r.ValuesUnsorted() {
					add(v)
				}
			}
		}
		return out
	}
	for _, r := range req.FieldSelector {
		if r.Field == a.field.key {
			add(r.Value)
		}
	}
	if a.field.key == "metadata.namespace" && req.Namespace != "" {
		add(req.Namespace)
	}
	switch a.kind() {
	case BoolField:
		out = append(out, true, false)
	case IntField:
		out = append(out, int64(0))
	case StringField:
		out = append(out, "")
	}
	return out
}

// other returns a value that differs from all given ones.
func (a *attribute) other(values []any) any {
	for i := int64(1); ; i++ {
		var v any = fmt.Sprintf("other-%d", i)
		if a.kind() == IntField {
			v = i
		}
		if !slices.Contains(values, v) {
			return v
		}
	}
}

// matches reports whether an object with this value can match the selectors.
func (a *attribute) matches(req *Request, value any) bool {
	text := fmt.Sprint(value)
	if a.label {
		for _, r := range req.LabelSelector {
			if r.Key() == a.path[2] && !numeric(r.Operator()) && !r.Matches(labels.Set{a.path[2]: text}) {
				return false
			}
		}
		return true
	}
	if a.field.key == "metadata.namespace" && req.Namespace != "" && text != req.Namespace {
		return false
	}
	if a.field.key == "metadata.name" && text == "" {
		return false
	}
	return a.selected(req, text)
}

// numeric requirements are only used for presence.
func numeric(op selection.Operator) bool {
	return op == selection.GreaterThan || op == selection.LessThan
}

func (a *attribute) selected(req *Request, text string) bool {
	for _, r := range req.FieldSelector {
		if r.Field != a.field.key {
			continue
		}
		equal := r.Value == text
		if (r.Operator == selection.NotEquals) == equal {
			return false
		}
	}
	return true
}

// mayBeAbsent reports whether an object without the attribute can match. A missing field is selected like an empty one;
// its text depends on the resource, so any of them suffices.
func (a *attribute) mayBeAbsent(req *Request) bool {
	if a.label {
		for _, r := range req.LabelSelector {
			if r.Key() == a.path[2] && !r.Matches(labels.Set{}) {
				return false
			}
		}
		return true
	}
	switch a.field.key {
	case "metadata.name":
		return false
	case "metadata.namespace":
		if req.Namespace != "" {
			return false
		}
	}
	empty := map[FieldType][]string{StringField: {""}, IntField: {"", "0"}, BoolField: {"", "false"}}
	return slices.ContainsFunc(empty[a.kind()], func(text string) bool { return a.selected(req, text) })
}

// world builds an object in which every attribute is in the given state. It
// reports false for states that contradict each other.
func world(use []*attribute, states []state) (map[string]any, bool) {
	object := map[string]any{"metadata": map[string]any{}}
	for i, a := range use {
		if states[i].value != nil && !put(object, a.path, states[i].value) {
			return nil, false
		}
	}
	for i, a := range use {
		if s := states[i]; s.value == nil && !cut(object, a.path, s) {
			return nil, false
		}
	}
	return object, true
}

// put sets a value, and creates its parents.
func put(object map[string]any, path []string, value any) bool {
	object, ok := inside(object, path[:len(path)-1])
	if !ok {
		return false
	}
	last := path[len(path)-1]
	if old, exists := object[last]; exists && old != value {
		return false
	}
	object[last] = value
	return true
}

// cut makes the path end at path[s.depth]. That contradicts a state in which the path has a value.
func cut(object map[string]any, path []string, s state) bool {
	object, ok := inside(object, path[:s.depth])
	if !ok {
		return false
	}
	last := path[s.depth]
	old, exists := object[last]
	if s.null {
		if exists && old != nil {
			return false
		}
		object[last] = nil
		return true
	}
	return !exists
}

// inside returns the map at a path, which it creates if nothing is there; false if something else is there.
func inside(object map[string]any, path []string) (map[string]any, bool) {
	for _, name := range path {
		child, exists := object[name]
		if !exists {
			child = map[string]any{}
			object[name] = child
		}
		m, ok := child.(map[string]any)
		if !ok {
			return nil, false
		}
		object = m
	}
	return object, true
}

// maxWorlds bounds the objects that are tried.
const maxWorlds = 2048

// eachWorld evaluates the condition for every object that the states of its attributes make possible, until visit
// returns false. A failure counts as not holding. The states that visit gets are only valid until it returns.
func (p *Program) eachWorld(req *Request, use []*attribute, states [][]state, visit func(current []state, holds bool) bool) error {
	worlds := 1
	for _, s := range states {
		if worlds *= len(s); worlds > maxWorlds {
			return errTooManyWorlds
		}
	}
	current := make([]state, len(states))
	for w := range worlds {
		for i, s := range states {
			current[i] = s[w%len(s)]
			w /= len(s)
		}
		object, possible := world(use, current)
		if !possible {
			continue
		}
		a := &activation{req: req, data: &Data{}, resource: &loaded{val: types.DefaultTypeAdapter.NativeToValue(object)}, limit: req.firstStep()}
		if a.limit == 0 {
			return errTooManyWorlds
		}
		val, cost, err := p.full.eval(nil, a) //nolint:staticcheck // the first step is short and cannot be cancelled
		req.spend(cost)
		if !visit(current, err == nil && val == types.True) {
			return nil
		}
	}
	return nil
}
