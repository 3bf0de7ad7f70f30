package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// FP-12: the reference page is made from the table, and up to date.
func TestPage(t *testing.T) {
	table, _ := fieldperm.New(fieldperm.Config{})
	written, err := os.ReadFile("../../docs/reference/declared-permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page(table), string(written)); diff != "" {
		t.Errorf("the page is stale, run `make generate`:\n%s", diff)
	}
	for _, e := range table.Permissions() {
		if !strings.Contains(string(written), "`"+e.Field+"`") || !strings.Contains(string(written), "`"+e.Verb+"`") {
			t.Errorf("%s on %s of %s is not on the page", e.Verb, e.Field, e.Resource)
		}
	}
	for _, row := range []string{
		"| `pods` | `.spec.nodeName` | `granular:nodeAssignment` | `granular:specification` |",
		"| all that have the field | `.metadata.labels[]` | `granular:label(<prefix>)` | `granular:labels`, `granular:metadata` |",
	} {
		if !strings.Contains(string(written), row) {
			t.Errorf("no row %s", row)
		}
	}
}
