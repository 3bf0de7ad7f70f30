package protectedattr

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated from the code")

// PA-13: who is exempt by name and what he makes, line by line. A test of the server holds the file against what
// Kubernetes grants: go test ./internal/engine/protectedattr -run CopiersAreWritten -update.
func TestCopiersAreWritten(t *testing.T) {
	var lines []string
	for user, made := range copiers {
		for _, r := range made {
			lines = append(lines, user+" "+r.group+"/"+r.resource+"\n")
		}
	}
	slices.Sort(lines)
	const file = "testdata/copiers.txt"
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != strings.Join(lines, "") {
		t.Errorf("%s is not what the table says: %v", file, err)
	}
}
