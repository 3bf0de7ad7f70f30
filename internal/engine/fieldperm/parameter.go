package fieldperm

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// excludes reports whether an exclusive permission applies to the change at frame i. Any failure means yes.
func (w *walker) excludes(p *permission, i int) bool {
	f := &w.frames[i]
	if p.when == nil || f.opaque || w.context().Err() != nil {
		return true
	}
	key, _ := w.keyOf(p, i)
	holds, err := p.when.Holds(w.context(), Change{Key: key, Self: p.picked(f.new), OldSelf: p.picked(w.before(f))})
	return err != nil || holds
}

func (w *walker) context() context.Context {
	if w.ctx == nil {
		return context.Background()
	}
	return w.ctx
}

// before returns the stored value of a frame. On create there is none, also where the object is compared with its
// defaults.
func (w *walker) before(f *frame) value.Value {
	if w.create {
		return nil
	}
	return f.old
}

// picked returns the value that a permission is about, as decoded JSON.
func (p *permission) picked(v value.Value) any {
	if v == nil {
		return nil
	}
	raw := v.Unstructured()
	if p.pick == "" {
		return raw
	}
	return fieldOf(raw, p.pick)
}

func fieldOf(raw any, name string) any {
	switch m := raw.(type) {
	case map[string]interface{}:
		return m[name]
	case map[interface{}]interface{}:
		return m[name]
	}
	return nil
}

// alternative returns the verbs of a permission that cover the change at frame i; none, with the reason, if its
// parameter cannot be computed.
func (w *walker) alternative(p *permission, i int) (alternative, string) {
	if p.broken {
		return alternative{}, p.Source + " does not compile"
	}
	if p.Parameter == nil {
		return alternative{verbs: []string{verb(p.Permission, "", false)}}, ""
	}
	var a alternative
	for _, side := range w.sides(i) {
		text, err := w.parameter(p, i, side)
		if err != nil {
			return alternative{}, err.Error()
		}
		if text = p.treat(text); len(text) > maxParameterLength {
			return alternative{}, fmt.Sprintf("its parameter is longer than %d bytes", maxParameterLength)
		}
		if v := verb(p.Permission, text, true); len(a.verbs) == 0 || a.verbs[0] != v {
			a.verbs = append(a.verbs, v)
		}
	}
	if len(a.verbs) == 0 {
		return alternative{}, "its parameter is unknown"
	}
	return a, ""
}

// side is one version of the object.
type side uint8

const (
	newSide side = iota
	oldSide
)

// sides returns the versions in which frame i exists.
func (w *walker) sides(i int) []side {
	f := &w.frames[i]
	switch {
	case f.opaque:
		return []side{newSide} // the values are unknown; only parameters that need none can be computed
	case f.new == nil && w.before(f) == nil:
		return nil
	case f.new == nil:
		return []side{oldSide}
	case w.before(f) == nil:
		return []side{newSide}
	}
	return []side{newSide, oldSide}
}

func (w *walker) valueAt(i int, s side) value.Value {
	if s == oldSide {
		return w.before(&w.frames[i])
	}
	return w.frames[i].new
}

// parameter computes the text of a parameter from one version, before its treatment.
func (w *walker) parameter(p *permission, i int, s side) (string, error) {
	switch p.Parameter.From {
	case FromKey:
		key, ok := w.keyOf(p, i)
		if !ok {
			return "", fmt.Errorf("its parameter is a key, and which one is unknown")
		}
		return key, nil
	case FromValue:
		return scalarText(p.picked(w.valueAt(i, s)))
	case FromElement:
		return scalarText(w.elementOf(i, s))
	case fromElementType:
		return scalarText(fieldOf(w.elementOf(i, s), "type"))
	}
	if w.frames[i].opaque {
		return "", fmt.Errorf("its parameter is unknown")
	}
	key, _ := w.keyOf(p, i)
	return p.from.Parameter(w.context(), key, p.picked(w.valueAt(i, s)), w.elementOf(i, s))
}

// keyOf returns the key of the last entry on the permission's path, which ends at frame i.
func (w *walker) keyOf(p *permission, i int) (string, bool) {
	for back, e := range slices.Backward(p.Field) {
		if at := i - (len(p.Field) - 1 - back); e.Bracket && at > 0 {
			step := w.step(at)
			return step.Name, !step.Any
		}
	}
	return "", false
}

// elementOf returns the nearest list element at or above frame i, as decoded JSON.
func (w *walker) elementOf(i int, s side) any {
	for ; i > 0; i-- {
		if w.frames[i].element {
			if v := w.valueAt(i, s); v != nil {
				return v.Unstructured()
			}
			return nil
		}
	}
	return nil
}

// scalarText returns a scalar as it appears in a verb. Other values are an error.
func scalarText(raw any) (string, error) {
	switch v := raw.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	}
	return "", fmt.Errorf("its parameter is not a text or number")
}
