package hiddenfield

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HF-4: what kubectl applied is kept if it is written as it is shown, and says about a hidden field only what the same
// request sets. A right guess and a wrong one lead to the same.
func TestRestoreApplied(t *testing.T) {
	const stored, shown = `{"data":{"a":"MQ=="},"kind":"Secret","type":"x"}`, `{"kind":"Secret","type":"x"}`
	const guess, plain = `{"data":{"a":"Mg=="},"kind":"Secret","type":"x"}`, `{"type":"x", "kind":"Secret"}`
	const other = `{"data":{"a":"Mg=="},"kind":"Secret","type":"y"}`
	all, none := hidden(t, false, ".data"), Set(nil)
	for _, tc := range []struct {
		name                  string
		stored, written, want string // want is empty for a refusal
		set                   Set
		untouched             bool
	}{
		{"as it is shown", stored, shown, stored, none, false},
		{"with other spaces", stored, plain, stored, none, false},
		{"a right guess", stored, stored, "", none, false},
		{"a wrong guess", stored, guess, "", none, false},
		{"a wrong guess as text", stored, strings.Replace(guess, "data", "stringData", 1), "", none, false},
		{"a guess with something else", stored, other, "", none, false},
		{"not written", stored, stored, stored, none, true},
		{"something else", stored, `{"kind":"Secret","type":"y"}`, `{"kind":"Secret","type":"y"}`, none, false},
		{"with a new value, which is right", stored, stored, shown, all, false},
		{"with a new value, which is wrong", stored, guess, shown, all, false},
		{"with a new value and something else", stored, other, other, all, false},
		{"without a hidden field", shown, shown, shown, none, false},
		{"one that cannot be read, as it is shown", "secret", "", "secret", none, false},
		{"one that cannot be read, guessed", "secret", "secret", "", none, false},
		{"one that cannot be read, instead", stored, "guess", "", none, false},
	} {
		at := func(text string, time metav1.Time, manager, fields string) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{lastApplied: text}, ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: "blind", Operation: metav1.ManagedFieldsOperationUpdate, Time: &time, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:type":{}}`)}},
				{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &time, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}},
			}}}
		}
		const owned = `{"f:metadata":{"f:annotations":{"f:` + lastApplied + `":{}}}}`
		before := at(tc.stored, metav1.Unix(1, 0), "kubectl", owned)
		after := at(tc.written, metav1.NewTime(time.Unix(2, 0)), "guesser", owned)
		err := all.RestoreMetadata(before, after, tc.set, !tc.untouched)
		var refused *Refused
		if tc.want == "" {
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "reveal:example.com/hidden") {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if got := after.Annotations[lastApplied]; err != nil || got != tc.want {
			t.Errorf("%s: %s, %v", tc.name, got, err)
		}
		if kept := tc.want == tc.stored || tc.want == shown; kept && !tc.untouched && cmp.Diff(before.ManagedFields, after.ManagedFields) != "" {
			t.Errorf("%s: managers: %v", tc.name, after.ManagedFields)
		}
	}
}

// HF-3: an annotation that cannot be read is shown as empty, so whether there is one is known.
func TestUnreadableIsShownAsEmpty(t *testing.T) {
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{lastApplied: "secret"}}}
	shown, err := hidden(t, false, ".data").Show(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := shown.(*corev1.Secret).Annotations[lastApplied]; !ok || text != "" {
		t.Errorf("%v %q", ok, text)
	}
}

// HF-2: what was applied in another version than that of the fields is not shown: it may have them in other places.
func TestAppliedInAnotherVersion(t *testing.T) {
	set := hidden(t, false, ".data").In("example.com/v2")
	for text, want := range map[string]string{
		`{"apiVersion":"example.com/v2","data":{"a":"secret"},"x":"y"}`: `{"apiVersion":"example.com/v2","x":"y"}`,
		`{"apiVersion":"example.com/v1","stuff":{"a":"secret"}}`:        "",
		`{"stuff":{"a":"secret"}}`:                                      "",
	} {
		if got := set.shownApplied(text); got != want {
			t.Errorf("%s is shown as %s", text, got)
		}
		if said := len(set.saidIn(text)); said != 1 {
			t.Errorf("%s says something about %d fields", text, said)
		}
		if got, ok := set.Replace([]byte(`{"kind":"X","metadata":{"annotations":{"`+lastApplied+`":`+strconv.Quote(text)+`}}}`), "X"); !ok || strings.Contains(string(got), "secret") {
			t.Errorf("%s is replaced by %s", text, got)
		}
	}
}

// HF-4: a patch that writes what kubectl applied is known, and so is an apply.
func TestWritesApplied(t *testing.T) {
	for patch, want := range map[string]bool{
		`{"metadata":{"annotations":{"` + lastApplied + `":"x"}}}`:                 true,
		`{"metadata":{"annotations":{"team":"x"}},"data":{"a":"b"}}`:               false,
		`[{"op":"add","path":"` + appliedPointer + `","value":"x"}]`:               true,
		`[{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}]`: true,
		`[{"op":"add","path":"/metadata","value":{}}]`:                             true,
		`[{"op":"add","path":"/metadata/annotations/team","value":"x"}]`:           false,
		`[{"op":"remove","path":"/metadata/labels"}]`:                              false,
		`what cannot be read`: true,
	} {
		if got := WritesApplied([]byte(patch)); got != want {
			t.Errorf("%s: %v", patch, got)
		}
	}
	entry := func(name string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: name, Operation: operation, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	const owned, team = `{"f:metadata":{"f:annotations":{"f:` + lastApplied + `":{}}}}`, `{"f:metadata":{"f:annotations":{"f:team":{}}}}`
	applied, updated := metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	for _, tc := range []struct {
		entry metav1.ManagedFieldsEntry
		want  bool
	}{{entry("a", applied, owned), true}, {entry("a", applied, team), false}, {entry("a", updated, owned), false}, {entry("b", applied, owned), false}} {
		if got := AppliesApplied("a", []metav1.ManagedFieldsEntry{tc.entry}); got != tc.want {
			t.Errorf("%v: %v", tc.entry, got)
		}
	}
	set := hidden(t, false, ".data")
	had := []metav1.ManagedFieldsEntry{entry("kubectl", updated, owned)}
	for name, tc := range map[string]struct {
		new  []metav1.ManagedFieldsEntry
		want bool
	}{
		"shared":     {append(had, entry("blind", applied, owned)), true},
		"taken over": {[]metav1.ManagedFieldsEntry{entry("blind", applied, owned)}, true},
		"left alone": {append(had, entry("blind", applied, team)), false},
	} {
		if got := set.TakenOver(had, tc.new); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for field, want := range map[string]bool{".metadata.annotations." + lastApplied: true, ".metadata.annotations.team": false} {
		if _, got := set.InConflict(field); got != want {
			t.Errorf("a conflict on %s: %v", field, got)
		}
	}
}
