package explorer

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
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

// EX-1: who takes back that it is read-only is told which flag lets the page apply changes.
func TestNotReadOnlyAllowsNothing(t *testing.T) {
	cmd := NewCommand(genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard}, nil)
	cmd.SetArgs([]string{"--read-only=false", "--print-url", "--kubeconfig", t.TempDir() + "/none"})
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "--read-only=false") || !strings.Contains(err.Error(), "use --allow-apply") {
		t.Error(err)
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

// EX-1, SV-6: the explorer takes the connection flags of kubectl, and its commands ask as it does.
func TestCommandsAskAsTheExplorerDoes(t *testing.T) {
	o := &Options{config: genericclioptions.NewConfigFlags(true)}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(fs)
	given := []string{"--as=edgar", "--as-group=one", "--as-group=two", "--insecure-skip-tls-verify=true", "--kubeconfig=" + os.DevNull, "--server=https://127.0.0.1:1"}
	if err := fs.Parse(append([]string{"--namespace=hammer", "--print-url"}, given...)); err != nil {
		t.Fatal(err)
	}
	cfg, err := o.complete()
	if err != nil || !slices.Equal(cfg.Identity, given) || cfg.Namespace != "hammer" || cfg.Rest.Impersonate.UserName != "edgar" {
		t.Errorf("%v %q in %q as %v", err, cfg.Identity, cfg.Namespace, cfg.Rest)
	}
}
