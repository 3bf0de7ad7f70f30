package sidecar

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/platform/pki"
)

// SC-16: only a sidecar that is to read objects gets the right to, and never one to a subresource.
func TestReadsObjectsAndNothingBelow(t *testing.T) {
	t.Parallel()
	for reads, want := range map[bool]bool{false: false, true: true} {
		dir := initialized(t, func(s *settings) { s.ReadObjects = reads })
		for file, text := range map[string]string{"cluster.yaml": `resources: ["*"], verbs: [get, list]`, "authorization.yaml": "request.resourceAttributes.subresource != ''"} {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(data), text); got != want {
				t.Errorf("reads %v: %s has %q: %v", reads, file, text, got)
			}
		}
	}
	w := newWorld(t, policy)
	for resource, want := range map[string]authorizer.Decision{"pods/exec": authorizer.DecisionDeny, "nodes/proxy": authorizer.DecisionDeny, "pods": authorizer.DecisionNoOpinion} {
		if got, err := w.decider.Access(t.Context(), "c", asked(pki.SidecarUser, "get", resource, "", "a")); err != nil || got.Decision != want {
			t.Errorf("%s: %v %v, want %v", resource, got, err, want)
		}
	}
}
