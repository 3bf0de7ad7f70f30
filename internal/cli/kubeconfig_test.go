package cli

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"

	"proviso.dev/proviso/internal/platform/pki"
)

// SV-6: a kubeconfig for another address and namespace, and one that joins what is there already.
func TestKubeconfig(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Ensure(dir, pki.Config{BindAddress: net.IPv4(127, 0, 0, 1), Port: 6443}); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, string, error) {
		streams, _, out, errOut := genericiooptions.NewTestIOStreams()
		cmd := NewKubeconfigCommand(streams)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append([]string{"--data-dir", dir}, args...))
		err := cmd.Execute()
		return out.String(), errOut.String(), err
	}
	out, _, err := run("--user", "edgar", "--server", "https://api.example.com:8443", "-n", "hammer")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load([]byte(out))
	if err != nil || config.Clusters["proviso"].Server != "https://api.example.com:8443" || config.Contexts["edgar@proviso"].Namespace != "hammer" || config.CurrentContext != "edgar@proviso" {
		t.Errorf("%v\n%s", err, out)
	}

	// What is there stays, the current context too.
	file := filepath.Join(t.TempDir(), "config")
	const before = `apiVersion: v1
kind: Config
current-context: other
clusters: [{name: other, cluster: {server: "https://other"}}]
users: [{name: other, user: {token: abc}}]
contexts: [{name: other, context: {cluster: other, user: other}}]
`
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	for range 2 { // again changes nothing but the certificate
		out, errOut, err := run("--user", "edgar", "--merge")
		if err != nil || out != "" || !strings.Contains(errOut, "kubectl config use-context edgar@proviso") {
			t.Fatalf("%v\n%s%s", err, out, errOut)
		}
		config, err := clientcmd.LoadFromFile(file)
		if err != nil || config.CurrentContext != "other" || len(config.Contexts) != 2 || len(config.AuthInfos) != 2 || config.AuthInfos["other"].Token != "abc" ||
			len(config.AuthInfos["edgar"].ClientCertificateData) == 0 || config.Clusters["proviso"].Server != "https://127.0.0.1:6443" {
			t.Errorf("%v: %+v", err, config)
		}
	}
	fresh := filepath.Join(t.TempDir(), "new")
	if _, _, err := run("--user", "edgar", "--merge", "-o", fresh); err != nil {
		t.Error(err)
	}
	if config, err := clientcmd.LoadFromFile(fresh); err != nil || config.CurrentContext != "edgar@proviso" {
		t.Errorf("a file that was not there: %v", err)
	}

	// Only the owner of the file can read the private key, even if others could read the old file.
	private := func(args ...string) {
		t.Helper()
		there := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(there, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		_, errOut, err := run(append(args, "--user", "edgar", "--out", there)...)
		if info, failed := os.Stat(there); failed != nil || info.Mode() != 0o600 || err != nil {
			t.Errorf("%v: %v, %v, %v", args, info.Mode(), failed, err)
		}
		if config, err := clientcmd.LoadFromFile(there); err != nil || len(config.AuthInfos["edgar"].ClientKeyData) == 0 {
			t.Errorf("%v: no key: %v", args, err)
		}
		if said := strings.Contains(errOut, "others could read or write "+there); said != (len(args) > 0) {
			t.Errorf("%v: %s", args, errOut)
		}
	}
	private()
	private("--merge")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.WriteFile(elsewhere, []byte(before), 0o644), os.Symlink(elsewhere, link)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run("--user", "edgar", "--out", link); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != before {
		t.Errorf("the link was followed: %v\n%s", err, text)
	}
	if _, _, err := run("--user", "edgar", "--out", os.DevNull); code(err) != codeUnanswered || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a device: %v", err)
	}

	for want, args := range map[string][]string{"name the user": {}, "want a URL such as": {"--user", "x", "--server", "api.example.com"}, "start `proviso serve`": {"--user", "x", "--data-dir", t.TempDir()}} {
		if _, _, err := run(args...); code(err) != 3 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
