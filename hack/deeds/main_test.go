package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// NI-4: what a controller does in a way that is not listed is found in the log; a log without any says nothing.
func TestDeedsOfALog(t *testing.T) {
	const event = `{"stage":"ResponseComplete","verb":"VERB","userAgent":"p (l) kubernetes/x/namespace-controller","user":{"username":"system:apiserver"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}` + "\n"
	for name, c := range map[string]struct{ log, out, err string }{
		"listed":   {strings.Repeat(strings.Replace(event, "VERB", "deletecollection", 1), 2), "2 changes by the server's own controllers, in 1 ways, 0 of them not listed", ""},
		"unlisted": {strings.Replace(event, "VERB", "update", 1), "1 of them not listed", "namespace-controller update pods (1 times)"},
		"reads":    {strings.Replace(event, "VERB", "list", 1), "", "nothing that a controller did"},
		"cut":      {event[:40], "", "unexpected EOF"},
	} {
		log := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(log, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err := run("../../docs/explanation/effects.md", []string{log}, &out)
		if !strings.Contains(out.String(), c.out) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}
