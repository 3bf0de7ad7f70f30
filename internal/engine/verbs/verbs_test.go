package verbs

import (
	"slices"
	"testing"
)

func TestVerbs(t *testing.T) {
	for _, test := range []struct {
		name string
		is   func(string) bool
		want []string
	}{
		{"IsRead", IsRead, Reads()},
		{"IsWrite", IsWrite, Writes()},
		{"IsRequest", IsRequest, All()},
		{"Stores", Stores, []string{"create", "update", "patch"}},
		{"Updates", Updates, []string{"update", "patch"}},
		{"Deletes", Deletes, []string{"delete", "deletecollection"}},
		{"Changes", Changes, []string{"update", "patch", "delete", "deletecollection"}},
		{"Selects", Selects, []string{"list", "watch", "deletecollection"}},
		{"HasName", HasName, []string{"get", "update", "patch", "delete"}},
		{"MayName", MayName, []string{"get", "list", "watch", "update", "patch", "delete"}},
	} {
		var got []string
		for _, verb := range All() {
			if test.is(verb) {
				got = append(got, verb)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	for _, verb := range append(Special(), "", "GET", "*", "granular:labels", "impersonate-on:user-info:get") {
		if IsRequest(verb) {
			t.Errorf("%q is a verb of requests", verb)
		}
	}
	all := All()
	if served := Served(); !slices.IsSorted(served) || !slices.Equal(served, slices.Sorted(slices.Values(all))) {
		t.Errorf("served %v, all %v", served, all)
	}
	if all[0] = "changed"; All()[0] != "get" {
		t.Error("a caller changes the list of others")
	}
}

// PO-24: what is misspelled is not known, and a deny of one way to read an object is about all of them.
func TestKnown(t *testing.T) {
	for _, verb := range append(All(), "*", "bind", "use", "granular:spec", "reveal:example.com/x", "impersonate-on:user-info:get", "post") {
		if !IsKnown(verb) {
			t.Errorf("%s is not known", verb)
		}
	}
	for _, verb := range []string{"", "gett", "read", "granular.x", "GET"} {
		if IsKnown(verb) {
			t.Errorf("%q is known", verb)
		}
	}
	for asked, want := range map[string][]string{"get": Reads(), "watch": Reads(), "delete": {"delete"}, "*": {"*"}} {
		if got := WithReads([]string{asked}); !slices.Equal(got, want) {
			t.Errorf("%s is %v", asked, got)
		}
	}
	if got := WithReads([]string{"delete", "list"}); !slices.Equal(got, []string{"get", "list", "watch", "delete"}) {
		t.Errorf("delete and list are %v", got)
	}
}
