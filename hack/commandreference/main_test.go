package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// SV-6: the page of commands is made from the commands, and up to date.
func TestPage(t *testing.T) {
	written, err := os.ReadFile("../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(page(program()), string(written)); diff != "" {
		t.Errorf("the page is stale, run `make generate`:\n%s", diff)
	}
	for _, want := range []string{"### proviso who-can\n", "### proviso backup save\n", "## Ask who can do what, and why\n", "| `--user` |", "`--kubeconfig`"} {
		if !strings.Contains(string(written), want) {
			t.Errorf("no %q", want)
		}
	}
}
