package explorer

import (
	"io"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// EX-1: who asks for reading alone and for applying gets neither, before anything listens.
func TestReadOnlyAndApplyAreNotBoth(t *testing.T) {
	for _, args := range [][]string{{"--read-only", "--allow-apply"}, {"--allow-apply", "--read-only=true"}} {
		cmd := NewCommand(genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard}, nil)
		cmd.SetArgs(append(args, "--print-url", "--kubeconfig", t.TempDir()+"/none"))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "one of them") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
