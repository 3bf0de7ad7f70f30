package readfilter

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/requestctx"
)

// NI-6: what is remembered of a caller is bounded in bytes, whatever they ask for, and one user who asks in ever other
// ways neither fills the memory nor makes others list again.
func TestHistoryIsBounded(t *testing.T) {
	now := uint64(10)
	current := func() (uint64, error) { now++; return now, nil }
	var h history
	ask := func(name, value string) uint64 {
		t.Helper()
		who, what := caller(&reading{attrs: authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name}, Namespace: "n",
			FieldSelectorRequirements: fields.Requirements{{Operator: selection.Equals, Field: "metadata.name", Value: value}}}})
		since, err := h.since(who, what, requestctx.View{}, current)
		if err != nil {
			t.Fatal(err)
		}
		return since
	}
	first := ask("ann", "x")
	for i := range 10 * maxAsked {
		ask("eve", strings.Repeat("y", 1<<10)+string(rune('a'+i%26))+strconv.Itoa(i))
	}
	if got := ask("ann", "x"); got != first {
		t.Errorf("ann has to list again: since %d, was %d", got, first)
	}
	kept := 0
	for _, by := range h.users {
		if len(by.eras) > maxAsked {
			t.Errorf("%d questions of one user are remembered", len(by.eras))
		}
		kept += len(by.eras)
	}
	if len(h.users) != 2 || kept > maxAsked+1 || kept != h.kept {
		t.Errorf("%d users with %d questions are remembered", len(h.users), kept)
	}
	// What was forgotten of eve holds from the revision at which it was forgotten, and not from the beginning.
	if got := ask("eve", strings.Repeat("y", 1<<10)+"a"); got <= first {
		t.Errorf("what was forgotten is taken as known since %d", got)
	}
	// Texts that run together are not the same question.
	if digestOf("a", "bc") == digestOf("ab", "c") {
		t.Error("two questions have one digest")
	}
}

// RD-7, NI-1: what a caller has not listed is watched from no revision of before, even if nothing was written since;
// what they have listed, from the revision of the list. Another right counts from its change on, whatever they list.
func TestHistoryBeginsWithTheQuestion(t *testing.T) {
	now := uint64(10)
	current := func() (uint64, error) { return now, nil }
	var h history
	who, what := digestOf("ann"), digestOf("all")
	ask := func(view requestctx.View, want uint64) {
		t.Helper()
		if since, err := h.since(who, what, view, current); err != nil || since != want {
			t.Errorf("since %d, %v; want %d", since, err, want)
		}
	}
	var one, other requestctx.View
	other[0] = 1
	ask(one, 11)
	now = 20
	ask(one, 11)
	h.from(who, what, one, 7)
	ask(one, 7)
	h.from(who, what, one, 9) // a later list tells nothing
	ask(one, 7)
	ask(other, 21)
	h.from(who, what, one, 3) // a list by the right of before
	ask(other, 21)
	h.from(who, what, other, 3) // a list as of before
	ask(other, 20)
	now = 30
	ask(one, 31)
	h.from(digestOf("eve"), what, one, 1)
	h.from(who, digestOf("other"), one, 1)
	ask(one, 31)
	h.from(who, what, one, 40)
	ask(one, 31)
	h.from(who, what, one, 30)
	ask(one, 30)
	failed := errors.New("etcd is away")
	if _, err := h.since(digestOf("eve"), what, one, func() (uint64, error) { return 0, failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}
