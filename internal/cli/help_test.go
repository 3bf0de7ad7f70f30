package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// SV-6: the help has groups, and none that is empty.
func TestHelpIsGrouped(t *testing.T) {
	root := NewPlugin(genericiooptions.IOStreams{Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}})
	Group(root)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Contains(text, "Run a server:") || !strings.Contains(text, "Ask who can do what, and why:\n  can-i") {
		t.Error(text)
	}
}

// SV-6: client libraries say nothing, unless they are asked to.
func TestLogging(t *testing.T) {
	defer logUpTo(0, nil)
	for args, want := range map[string]bool{"": false, "-v=0": false, "-v=2": true, "--v=6": true} {
		var out bytes.Buffer
		root := &cobra.Command{Use: "root"}
		root.AddCommand(&cobra.Command{Use: "do", Run: func(*cobra.Command, []string) {
			klog.Error("something failed")
			klog.V(2).Info("something happened")
			klog.Flush()
		}})
		Logging(root.Commands()...)
		root.SetErr(&out)
		root.SetArgs(strings.Fields("do " + args))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "something failed") != want || strings.Contains(out.String(), "something happened") != want {
			t.Errorf("%q: %q", args, out.String())
		}
	}
}

// SV-6: --user is kubectl's flag where --as names the subject; the error says so.
func TestUserThatTheKubeconfigLacks(t *testing.T) {
	if got := sentence(errors.New(`auth info "bob" does not exist`)); !strings.Contains(got, `no user "bob"`) || !strings.Contains(got, "use --as") {
		t.Error(got)
	}
}

// SV-6: a kubeconfig that is missing is named, with the one that the server has written.
func TestMissingKubeconfig(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	home := clientcmd.RecommendedHomeFile
	clientcmd.RecommendedHomeFile = filepath.Join(dir, "home")
	defer func() { clientcmd.RecommendedHomeFile = home }()
	t.Setenv("KUBECONFIG", "")
	if got := noKubeconfig(); !strings.Contains(got, filepath.Join(dir, "home")+" does not exist, and KUBECONFIG is not set; name one with --kubeconfig") {
		t.Error(got)
	}
	t.Setenv("KUBECONFIG", "/no/such:/nor/such")
	if got := noKubeconfig(); !strings.Contains(got, "KUBECONFIG is /no/such, /nor/such, which does not exist") {
		t.Error(got)
	}
	there := filepath.Join(dir, adminKubeconfig)
	if err := os.MkdirAll(filepath.Dir(there), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := noKubeconfig(); !strings.HasSuffix(got, "try: export KUBECONFIG="+there) {
		t.Error(got)
	}
	t.Setenv("KUBECONFIG", "/no/such:"+there)
	if got := noKubeconfig(); got != "" {
		t.Error(got)
	}
}
