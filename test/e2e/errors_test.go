package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SV-1, SV-7: what a user can get wrong ends with one clear line and a non-zero exit code.
func TestMistakesEndWithOneLine(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(tempDir(t), "file")
	write(t, file, "not a directory")
	corrupt := prepared(t)
	write(t, filepath.Join(corrupt, "pki", "apiserver.crt"), "rubbish")
	lostCA := prepared(t)
	if err := os.Remove(filepath.Join(lostCA, "pki", "ca.key")); err != nil {
		t.Fatal(err)
	}
	badConfig := filepath.Join(tempDir(t), "authz.yaml")
	write(t, badConfig, "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- {type: Polcy, name: policy}\n")

	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"unknown flag", []string{"serve", "--no-such-flag"}, []string{"--no-such-flag", "--help"}},
		{"unknown command", []string{"sevre"}, []string{"sevre"}},
		{"port out of range", []string{"serve", "--secure-port", "70000"}, []string{"--secure-port=70000"}},
		{"port in use", []string{"serve", "--secure-port", fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)}, []string{"is in use", "--secure-port"}},
		{"address of another machine", []string{"serve", "--bind-address", "203.0.113.7"}, []string{"--bind-address=203.0.113.7"}},
		{"data dir is a file", []string{"serve", "--data-dir", file}, []string{file}},
		{"data dir below a file", []string{"serve", "--data-dir", filepath.Join(file, "x")}, []string{file}},
		{"corrupt certificate", []string{"serve", "--data-dir", corrupt}, []string{"apiserver.crt", "corrupt"}},
		{"lost CA key", []string{"serve", "--data-dir", lostCA}, []string{"ca.key"}},
		{"unknown controller", []string{"serve", "--controllers", "nodeipam"}, []string{"--controllers", "nodeipam"}},
		{"unknown log output", []string{"serve", "--log-output", "syslog"}, []string{"--log-output"}},
		{"unknown feature gate", []string{"serve", "--feature-gates", "Conditional=true"}, []string{"Conditional"}},
		{"unknown authorization mode", []string{"serve", "--authorization-mode", "Policy,Rbac"}, []string{"Rbac"}},
		{"bad authorization file", []string{"serve", "--authorization-config", badConfig}, []string{badConfig, "Polcy"}},
		{"bad service range", []string{"serve", "--service-cluster-ip-range", "nonsense"}, []string{"--service-cluster-ip-range"}},
		{"kubeconfig without a user", []string{"kubeconfig"}, []string{"user"}},
		{"kubeconfig without a server", []string{"kubeconfig", "--user", "edgar", "--data-dir", tempDir(t)}, []string{"proviso serve"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := tt.args
			if args[0] == "serve" && !contains(args, "--data-dir") {
				args = append(args, "--data-dir", tempDir(t)+"/d")
			}
			if args[0] == "serve" && !contains(args, "--secure-port") {
				args = append(args, "--secure-port", fmt.Sprint(freePort(t)))
			}
			p := spawn(t, binary(t), args...)
			code, out := p.wait(), p.output.String()
			if code == 0 {
				t.Errorf("exit code 0\n%s", out)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("the message does not mention %q:\n%s", want, out)
				}
			}
			if strings.Contains(out, "goroutine ") || strings.Contains(out, "Usage:") {
				t.Errorf("a stack or a page of usage hides the message:\n%s", out)
			}
			if strings.Count("\n"+out, "\nproviso: ") != 1 {
				t.Errorf("want one line with the error:\n%s", out)
			}
		})
	}
}

// prepared is a data directory that a server has used.
func prepared(t *testing.T) string {
	t.Helper()
	dir := tempDir(t) + "/d"
	s := launch(t, dir)
	s.await("certificates", func() bool { return strings.Contains(s.output.String(), "certificates") })
	s.kill()
	return dir
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
