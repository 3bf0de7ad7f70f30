package client_test

import (
	"os/exec"
	"strings"
	"testing"
)

// OP-8: who imports the client gets no API server with it, and needs no `replace` of ours.
func TestClientNeedsNoServer(t *testing.T) {
	cmd := exec.Command("go", "list", "-m", "all")
	cmd.Env = append(cmd.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	modules := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(modules) < 20 || len(modules) > 120 {
		t.Errorf("the client brings %d modules", len(modules))
	}
	for _, module := range modules {
		name, rest, _ := strings.Cut(module, " ")
		switch {
		case name == "k8s.io/kubernetes" || name == "k8s.io/apiserver" || name == "proviso.dev/proviso":
			t.Errorf("the client brings %s", module)
		case strings.Contains(rest, "=>") && name != "proviso.dev/proviso/api":
			t.Errorf("%s: an importer does not have this replacement", module)
		case strings.HasPrefix(rest, "v0.0.0") && !strings.HasPrefix(rest, "v0.0.0-"):
			t.Errorf("%s: nobody has published this version", module)
		}
	}
}
