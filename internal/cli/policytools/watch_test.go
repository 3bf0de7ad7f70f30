package policytools

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// shared is a buffer that one writes and another reads.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TR-8: --watch decides again when a file changes, also after one that cannot be read, until it is interrupted.
func TestWatch(t *testing.T) {
	const test = "apiVersion: tools.proviso.dev/v1alpha1\nkind: PolicyTest\nmetadata: {name: volumes}\npolicies: [policy.yaml]\ncases:\n" +
		"- {user: edgar, groups: [team-a], verb: get, resource: persistentvolumeclaims, namespace: hammer, expect: {decision: Allow}}\n"
	dir := write(t, map[string]string{"policy.yaml": volumes, "volumes.test.yaml": test})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &shared{}
	cmd := NewTestCommand(genericiooptions.IOStreams{Out: out, ErrOut: out})
	cmd.SetArgs([]string{dir, "--watch"})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	await := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(3 * time.Minute); !strings.Contains(out.String(), want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no %q in\n%s", want, out)
			}
		}
	}
	change := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "volumes.test.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	await("1 passed, 0 failed")
	change(strings.Replace(test, "verb: get", "verb: delete", 1))
	await("0 passed, 1 failed")
	change(test + "cases: [\n")
	await("volumes.test.yaml, document 1")
	change(test + test[strings.Index(test, "- {"):])
	await("2 passed, 0 failed")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
