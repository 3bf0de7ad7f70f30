package readfilter

import (
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// NI-6: what is remembered of a caller is bounded in bytes, whatever they ask for, and one user who asks in ever other
// ways neither fills the memory nor makes others list again.
func TestHistoryIsBounded(t *testing.T) {
	snap := &snapshot.Snapshot{Rules: ruleset.Build(ruleset.Input{MasterNamespace: "master"})}
	now := uint64(10)
	current := func() (uint64, error) { now++; return now, nil }
	var h history
	ask := func(name, value string) uint64 {
		t.Helper()
		who, what := caller(&reading{attrs: authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name}, Namespace: "n",
			FieldSelectorRequirements: fields.Requirements{{Operator: selection.Equals, Field: "metadata.name", Value: value}}}})
		since, err := h.since(snap, who, what, requestctx.View{}, current)
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
