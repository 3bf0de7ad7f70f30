package policytools

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TR-1: policy is read from files or from a server. Every flag that says which server, or as whom, is refused beside
// files; it would be ignored.
func TestFromAsksNoServer(t *testing.T) {
	from := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(from, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: hammer}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := map[string]struct {
		command func(genericiooptions.IOStreams) *cobra.Command
		args    []string
	}{
		"plan": {NewPlanCommand, []string{"-f", from}}, "lint": {NewLintCommand, nil}, "matrix": {NewMatrixCommand, nil},
		"suggest": {NewSuggestCommand, []string{"--replay", trafficLog}},
	}
	for name, c := range commands {
		args := append([]string{"--from", from}, c.args...)
		if _, _, err := execute(t, c.command, "", args...); err != nil && strings.Contains(err.Error(), "mutually exclusive") {
			t.Errorf("%s: %v", name, err)
		}
		for _, flag := range []string{"--server=https://127.0.0.1:1", "--as=edgar", "--as-group=one", "--token=x", "--kubeconfig=x", "--context=x", "--client-certificate=x", "--insecure-skip-tls-verify=true"} {
			word, _, _ := strings.Cut(flag, "=")
			out, code, err := execute(t, c.command, "", append(args, flag)...)
			if code != 3 || err == nil || !strings.Contains(err.Error(), "--from and "+word+" are mutually exclusive") {
				t.Errorf("%s %s: %d: %v\n%s", name, flag, code, err, out)
			}
		}
	}
}
