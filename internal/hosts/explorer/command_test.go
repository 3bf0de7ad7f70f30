package explorer

import (
	"io"
	"os"
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
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "mutually exclusive") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// The address holds the key to the session: no program gets it as an argument, and only this user can read the page.
func TestTheAddressIsNoArgument(t *testing.T) {
	page, err := redirect(`http://127.0.0.1:1/?token=a"b`)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(page)
	info, err := os.Stat(page)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), `url=http://127.0.0.1:1/?token=a&#34;b"`) || strings.Contains(page, "token") {
		t.Errorf("%s: %s %v", page, text, err)
	}
}
