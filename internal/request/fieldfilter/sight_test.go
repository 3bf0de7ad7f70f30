package fieldfilter

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// TM-5: what counts as the same sight. In doubt it is another one.
func TestSameSight(t *testing.T) {
	hidden := newWorld(t, true).snap.Fields.Hidden(fieldperm.Resource{Resource: "secrets"})
	other, renamed := slices.Clone(hidden), slices.Clone(hidden)
	other[0].Field, renamed[0].Permission = fieldperm.Path{fieldperm.Field("type")}, "example.com/other"
	at := place{"example.com/data", "a"}
	sights := func(change func(was, now *sight)) (was, now *sight) {
		for _, s := range []**sight{&was, &now} {
			*s = &sight{fields: hidden, holder: &requestctx.State{Snapshot: &snapshot.Snapshot{}}, open: map[string]bool{"example.com/data": true}, answers: map[place]authorize.Answer{at: authorize.Allowed}}
		}
		change(was, now)
		return was, now
	}
	for name, c := range map[string]struct {
		change func(was, now *sight)
		want   bool
	}{
		"the same":               {func(_, _ *sight) {}, true},
		"nothing hidden":         {func(was, now *sight) { *was, *now = sight{}, sight{holder: now.holder} }, true},
		"nothing hidden before":  {func(was, _ *sight) { *was = sight{} }, false},
		"nothing hidden now":     {func(_, now *sight) { *now = sight{holder: now.holder} }, false},
		"another field":          {func(_, now *sight) { now.fields = other }, false},
		"another permission":     {func(_, now *sight) { now.fields = renamed }, false},
		"hidden everywhere now":  {func(_, now *sight) { now.open = nil }, false},
		"another answer":         {func(_, now *sight) { now.answers[at] = authorize.Unanswered }, false},
		"denied, not unanswered": {func(was, now *sight) { was.answers[at], now.answers[at] = authorize.Unanswered, authorize.Denied }, true},
		"a condition before":     {func(was, _ *sight) { was.answers[at] = authorize.Open }, false},
		"a condition": {func(was, now *sight) {
			was.answers[at], now.answers[at] = authorize.Open, authorize.Open
			now.conditions = map[place]authorize.Verdict{at: {Answer: authorize.Open}}
		}, false},
		"forgotten":              {func(was, _ *sight) { was.forgot = true }, false},
		"forgotten in the check": {func(_, now *sight) { now.forgot = true }, false},
	} {
		was, now := sights(c.change)
		next := was.under(t.Context(), now)
		if (next != nil) != c.want {
			t.Errorf("%s: the same %v", name, !c.want)
		}
		if next == nil {
			continue
		}
		if next.holder.Snapshot != now.holder.Snapshot || !maps.Equal(next.answers, was.answers) {
			t.Errorf("%s: %+v", name, next)
		}
		if next.remember(place{}, authorize.Verdict{Answer: authorize.Open}, nil); len(was.answers) > 1 {
			t.Errorf("%s: two sights share what they remember", name)
		}
	}
	if (&sight{}).under(t.Context(), nil) != nil {
		t.Error("what is not known is the same")
	}
}

// encoded is an object that all watches share.
type encoded struct{ runtime.Object }

func (encoded) CacheEncode(runtime.Identifier, func(runtime.Object, io.Writer) error, io.Writer) error {
	return nil
}
func (e encoded) GetObject() runtime.Object { return e.Object }

// HF-10: a caller who sees everything gets the encoded bytes that all watches share.
func TestSharedBytesStayShared(t *testing.T) {
	e := watch.Event{Type: watch.Modified, Object: encoded{&corev1.Secret{}}}
	if got := (&store{}).event(e, &sight{}, nil); got != e {
		t.Errorf("%T", got.Object)
	}
}

// NI-6: what a watch remembers is bounded. One that has forgotten what it has shown ends when rights change.
func TestPlacesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudience(t, right{"oscar", "n0"}, right{"ann", "n0"})
		oscar, ann := a.watch("oscar", ""), a.watch("ann", "")
		places := func(v *viewer) int {
			seen := a.filters.sightOf(v.ctx)
			if len(seen.conditions) > len(seen.answers) {
				t.Errorf("%d conditions", len(seen.conditions))
			}
			return len(seen.answers)
		}
		for i := range maxPlaces { // one place is where it is asked about all namespaces
			oscar.change(fmt.Sprint("n", i))
			oscar.next()
			if i > 0 {
				ann.change(fmt.Sprint("n", i))
				ann.next()
			}
			if n := places(oscar); n > maxPlaces {
				t.Fatalf("%d places", n)
			}
		}
		if places(ann) != maxPlaces || places(oscar) != 1 {
			t.Errorf("%d places, and %d after too many", places(ann), places(oscar))
		}
		oscar.change("n0")
		oscar.want("decided again", "shown")
		a.check()
		a.change(right{"oscar", "n0"}, right{"ann", "n0"})
		oscar.want("forgetful", "gone")
		ann.change("n1")
		ann.want("not forgetful", "hidden")
	})
}
