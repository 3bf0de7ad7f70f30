package expr

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// halves gives an old object, or why there is none, and a new one that nobody knows.
type halves struct {
	old map[string]any
	err error
}

func (halves) Object(string) (runtime.Object, error) { return nil, ErrNotKnown }
func (h halves) OldObject(string) (runtime.Object, error) {
	if h.err != nil {
		return nil, h.err
	}
	return obj(h.old), nil
}

// NI-1: what is decided without the new object holds for every new object. A where whose old object is false or cannot
// be had is not met, whatever the new one is; one that needs the new object says so.
func TestDecidedWithoutTheNewObject(t *testing.T) {
	lost := errors.New("the version does not show it")
	for _, c := range []struct {
		kind    Kind
		source  string
		effect  Effect
		objects halves
		holds   bool
		needed  bool
	}{
		{Where, `resource.x == 1`, Allow, halves{old: map[string]any{"x": int64(2)}}, false, false},
		{Where, `resource.x == 1`, Allow, halves{err: lost}, false, false},
		{Where, `resource.x == 1`, Allow, halves{old: map[string]any{}}, false, false},
		{Where, `resource.x == 1`, Allow, halves{old: map[string]any{"x": int64(1)}}, false, true},
		{Where, `resource.x == 1`, Deny, halves{old: map[string]any{"x": int64(1)}}, true, false},
		{Where, `resource.x == 1`, Deny, halves{err: lost}, true, false},
		{Where, `resource.x == 1`, Deny, halves{old: map[string]any{"x": int64(2)}}, true, true},
		{When, `oldObject.x == 1`, Allow, halves{old: map[string]any{"x": int64(2)}}, false, false},
		{When, `object.x == 1 || oldObject.x == 1`, Allow, halves{err: lost}, false, true},
		{When, `oldObject.x == 1 || object.x == 1`, Allow, halves{err: lost}, false, true},
		{When, `operation == "DELETE"`, Allow, halves{err: lost}, false, false},
	} {
		d := NewData(DataConfig{Operation: "UPDATE", OwnKind: true, Objects: c.objects})
		holds, _ := compile(t, c.kind, c.source).Evaluate(context.Background(), edgar(), c.effect, d)
		if holds != c.holds || d.NeededUnknown() != c.needed {
			t.Errorf("%s with %+v: %v, needed %v", c.source, c.objects, holds, d.NeededUnknown())
		}
	}
	d := NewData(DataConfig{Objects: halves{}})
	if _, err := d.Object(""); !errors.Is(err, ErrNotKnown) || !d.NeededUnknown() {
		t.Errorf("a condition in Go: %v, needed %v", err, d.NeededUnknown())
	}
}
