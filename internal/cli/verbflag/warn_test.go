package verbflag

import (
	"strings"
	"testing"
)

// PO-24: a verb that nothing asks about is probably misspelled.
func TestWarn(t *testing.T) {
	var out strings.Builder
	Warn(&out, "get", "-list", "*", "reveal:example.com/x", "gett", "frobnicate")
	if want := "Warning: \"gett\" is not a verb of Kubernetes or Proviso (did you mean get?)\nWarning: \"frobnicate\" is not a verb of Kubernetes or Proviso\n"; out.String() != want {
		t.Errorf("%s, want %s", out.String(), want)
	}
}
