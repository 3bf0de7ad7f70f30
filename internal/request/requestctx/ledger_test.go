package requestctx

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func stateOf(uid, version string) runtime.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
}

// NI-3: of a retried write the last attempt counts, of a collection each object that is listed or looked at.
func TestLedger(t *testing.T) {
	for _, tc := range []struct {
		name       string
		collection bool
		do         func(*Ledger)
		open       int
		incomplete bool
		admitted   bool
	}{
		{name: "nothing", do: func(*Ledger) {}},
		{name: "admitted", do: func(l *Ledger) { l.Look(stateOf("a", "1")); l.Admit(stateOf("a", "1")) }, admitted: true},
		{name: "another state", do: func(l *Ledger) { l.Look(stateOf("a", "2")); l.Admit(stateOf("a", "1")) }, open: 1, admitted: true},
		{name: "another object", do: func(l *Ledger) { l.Look(stateOf("a", "1")); l.Admit(stateOf("b", "1")) }, open: 1, admitted: true},
		{name: "tried again", do: func(l *Ledger) { l.Look(stateOf("a", "1")); l.Admit(stateOf("a", "1")); l.Look(stateOf("a", "2")) }, open: 1},
		{name: "tried again, and admitted", do: func(l *Ledger) {
			l.Look(stateOf("a", "1"))
			l.Look(stateOf("b", "2"))
			l.Admit(stateOf("b", "2"))
		}, admitted: true},
		{name: "cannot be read", do: func(l *Ledger) { l.Look(stateOf("a", "1")); l.Admit(stateOf("a", "1")); l.Look(nil) }, incomplete: true},
		{name: "read after all", do: func(l *Ledger) { l.Look(nil); l.Look(stateOf("a", "1")); l.Admit(stateOf("a", "1")) }, admitted: true},
		{name: "created by an update", do: func(l *Ledger) { l.Look(stateOf("", "")); l.Admit(nil) }, admitted: true},
		{name: "created, but it is there", do: func(l *Ledger) { l.Look(stateOf("", "")); l.Admit(nil); l.Look(stateOf("a", "1")) }, open: 1},
		{name: "about no stored object", do: func(l *Ledger) { l.AdmitWhole(false); l.Look(stateOf("a", "1")) }, admitted: true},
		{name: "an empty collection", collection: true, do: func(l *Ledger) { l.List(nil) }, admitted: true},
		{name: "a collection", collection: true, do: func(l *Ledger) {
			l.List([]runtime.Object{stateOf("a", "1"), stateOf("b", "1")})
			for _, s := range []string{"a", "b"} {
				l.Look(stateOf(s, "1"))
				l.Admit(stateOf(s, "1"))
			}
		}, admitted: true},
		{name: "one of a collection is not", collection: true, do: func(l *Ledger) {
			l.List([]runtime.Object{stateOf("a", "1"), stateOf("b", "1")})
			l.Look(stateOf("a", "1"))
			l.Admit(stateOf("a", "1"))
			l.Look(stateOf("b", "1"))
		}, open: 2, admitted: true},
		{name: "a collection of old states", collection: true, do: func(l *Ledger) {
			l.List([]runtime.Object{stateOf("a", "1")})
			l.Look(stateOf("a", "2"))
			l.Admit(stateOf("a", "2"))
		}, open: 1, admitted: true},
		{name: "a collection that is deleted in two steps", collection: true, do: func(l *Ledger) {
			l.List([]runtime.Object{stateOf("a", "1")})
			for _, version := range []string{"1", "2"} { // the grace period first, which writes the object
				l.Look(stateOf("a", version))
				l.Admit(stateOf("a", version))
			}
		}, admitted: true},
		{name: "one of a collection cannot be read", collection: true, do: func(l *Ledger) {
			l.List(nil)
			l.Look(nil)
			l.Look(stateOf("a", "1"))
			l.Admit(stateOf("a", "1"))
		}, incomplete: true, admitted: true},
	} {
		l := NewLedger(tc.collection)
		tc.do(l)
		states, complete := l.Open()
		if len(states) != tc.open || complete == tc.incomplete || l.Admitted() != tc.admitted {
			t.Errorf("%s: %d open, complete %v, admitted %v", tc.name, len(states), complete, l.Admitted())
		}
	}
}

// NI-3: a refusal is the enforcer's until the next attempt, and a request without a ledger is never admitted.
func TestLedgerRefusals(t *testing.T) {
	l := NewLedger(false)
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() { l.Refuse() }, true},
		{func() { l.Look(stateOf("a", "2")) }, false},
		{func() { l.Refuse() }, true},
		{func() { l.Admit(stateOf("a", "2")) }, false},
		{func() { l.Refuse() }, true},
		{func() { l.AdmitWhole(true) }, false},
	} {
		if step.do(); l.Refused() != step.want {
			t.Errorf("step %d: refused %v", i, l.Refused())
		}
	}
	if !l.Streams() {
		t.Error("a connection that was admitted is held")
	}
	var none *Ledger
	none.Look(nil)
	none.List(nil)
	none.Admit(nil)
	none.AdmitWhole(true)
	none.Refuse()
	if _, complete := none.Open(); complete || none.Admitted() || none.Streams() || none.Refused() {
		t.Error("no ledger admits")
	}
}
