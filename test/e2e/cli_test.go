package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// OP-1: what a user types first. Under other names it is other programs.
func TestItSaysWhatItIs(t *testing.T) {
	dir := tempDir(t)
	run := func(path string, args ...string) (string, int) {
		t.Helper()
		p := spawn(t, path, args...)
		code := p.wait()
		return p.output.String(), code
	}
	link := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.Symlink(binary(t), path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		path string
		args string
		code int
		with string
	}{
		{binary(t), "", 0, "Ask who can do what, and why:"},
		{binary(t), "--version", 0, "Kubernetes v1."},
		{binary(t), "version", 0, "proviso v"},
		{binary(t), "version -o json", 0, `"kubernetes": "v1.`},
		{binary(t), "sevre", 3, "see 'proviso --help'"},
		{binary(t), "polcy open", 3, `(did you mean "policy"?); see 'proviso --help'`},
		{binary(t), "audit convert", 3, "name a file: -f FILE"},
		{binary(t), "can-i get pods --server https://127.0.0.1:1", 3, "proviso: the server at https://127.0.0.1:1 does not answer: connection refused"},
		{binary(t), "can-i --nosuch", 3, "see 'proviso can-i --help'"},
		{link("kubectl"), "version --client", 0, "Client Version: v1."},
		{link("kube-apiserver"), "--version", 0, "Kubernetes v1."},
		{link("kubectl-proviso"), "version", 0, "proviso v"},
		{binary(t), "docs --out " + filepath.Join(dir, "site"), 0, "begin with " + filepath.Join(dir, "site", "index.html")}, // OP-9
		{binary(t), "docs --out " + filepath.Join(dir, "site"), 1, "is not empty"},
		{binary(t), "docs --listen nowhere", 1, "--listen"},
	} {
		if out, code := run(tc.path, strings.Fields(tc.args)...); code != tc.code || !strings.Contains(out, tc.with) {
			t.Errorf("%s %s: exit code %d, want %d with %q\n%s", filepath.Base(tc.path), tc.args, code, tc.code, tc.with, out)
		}
	}
	// Without an etcd it is no kube-apiserver, and does not bring one.
	if out, code := run(filepath.Join(dir, "kube-apiserver"), "--cert-dir", dir); code != 1 || !strings.Contains(out, "--etcd-servers must be specified") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// remedyOfARefusal: TR-12. The refusal names a command, whoever is refused can run it, and what it says is missing
// lets the request pass.
func remedyOfARefusal(s *server, edgar string) {
	s.t.Helper()
	refusal, err := s.try("", "delete", "configmap", "notes", "-n", "hammer", "--kubeconfig", edgar)
	parts := strings.Split(refusal, "`")
	if err == nil || len(parts) != 3 || !strings.HasSuffix(strings.TrimSpace(parts[2]), "says what would allow it") {
		s.t.Fatalf("the refusal names no command: %v\n%s", err, refusal)
	}
	command := strings.Fields(parts[1])
	if out, code := s.proviso(edgar, command[1:]...); code != 1 || !strings.Contains(out, "- notes\n") {
		s.t.Fatalf("%s: exit code %d\n%s", parts[1], code, out)
	}
	out, _ := s.proviso(edgar, append(command[1:], "-o", "json")...)
	var review struct {
		Status struct {
			Trace struct{ Remedy struct{ Grant string } }
		}
	}
	if err := json.Unmarshal([]byte(out), &review); err != nil || review.Status.Trace.Remedy.Grant == "" {
		s.t.Fatalf("%v\n%s", err, out)
	}
	s.apply(review.Status.Trace.Remedy.Grant)
	s.await("the right that was missing", func() bool {
		_, err := s.try("", "delete", "configmap", "notes", "-n", "hammer", "--kubeconfig", edgar)
		return err == nil
	})
}

// SV-6: the daily chores and the questions, on a real server.
func TestDailyChores(t *testing.T) {
	t.Parallel()
	s := serve(t, tempDir(t)+"/d")
	s.kubectl("create", "namespace", "hammer")
	edgar, err := s.issue("edgar")
	if err != nil {
		t.Fatal(err)
	}
	s.kubectl("create", "configmap", "ledger", "-n", "hammer")
	s.kubectl("create", "configmap", "notes", "-n", "hammer")
	s.kubectl("label", "configmap", "ledger", "-n", "hammer", "protected=yes")
	type step struct {
		as, args string
		code     int
		with     string
	}
	check := func(steps ...step) {
		t.Helper()
		for _, tc := range steps {
			// A policy is effective a moment after it was written.
			deadline := time.Now().Add(patience)
			for {
				out, code := s.proviso(tc.as, strings.Fields(tc.args)...)
				if code == tc.code && strings.Contains(out, tc.with) {
					break
				}
				if time.Now().After(deadline) || strings.HasPrefix(tc.args, "policy") {
					t.Fatalf("proviso %s: exit code %d, want %d with %q\n%s", tc.args, code, tc.code, tc.with, out)
				}
			}
		}
	}
	check(
		step{s.kubeconfig, "policy open hammer --user hubert", 0, "rolebinding.authorization.proviso.dev/admin created"},
		step{s.kubeconfig, "policy open hammer --user hubert", 0, "rolebinding.authorization.proviso.dev/admin unchanged"},
		step{s.kubeconfig, "policy grant edit --user edgar --serviceaccount hammer:bot -n hammer", 0, "rolebinding.authorization.proviso.dev/edit created"},
		step{s.kubeconfig, "policy grant edit --user edgar -n hammer", 0, "unchanged"},
		step{s.kubeconfig, "policy grant edit --group team-a -n hammer", 0, "configured"},
		// A namespace that is not open: the refusal offers to open it, and --open does.
		step{s.kubeconfig, "policy deny delete secrets --user edgar -n default", 3, "`proviso policy open default`"},
		step{s.kubeconfig, "policy deny delete secrets --user edgar -n default --open", 0, "policybinding.policy.proviso.dev/default created\nrole.authorization.proviso.dev/deny-delete-secrets created"},
		step{s.kubeconfig, "policy grant deny-delete-secrets --group team-z -n default --open", 0, "policy.policy.proviso.dev/default unchanged"},
		step{s.kubeconfig, "policy open nowhere", 3, `namespaces "nowhere" not found`},
		step{s.kubeconfig, "policy grant edit --user edgar -n nowhere", 3, `namespaces "nowhere" not found`},
		step{s.kubeconfig, "policy grant nosuch --user edgar -n hammer", 3, `there is no role "nosuch" in namespace hammer or master`},
		step{edgar, "can-i delete configmaps/ledger -n hammer", 0, "yes"},
		// Whom a namespace was delegated to does the chores too.
		step{s.kubeconfig, "policy deny delete configmaps --with-label protected --user edgar -n hammer --as hubert", 0, "rolebinding.authorization.proviso.dev/deny-delete-configmaps created"},
		step{edgar, "can-i delete configmaps/ledger -n hammer", 2, "refused if the stored object has the labels protected"},
		step{edgar, "explain delete configmaps/ledger -n hammer --stored", 1, "no, with this object"},
		step{edgar, "explain delete configmaps/notes -n hammer --stored", 0, "yes, with this object"},
		step{s.kubeconfig, "explain delete configmaps/ledger -n hammer --stored --as edgar -o name", 1, "no"},
		step{edgar, "can-i --list -n hammer", 0, "refused if the stored object has the labels protected"},
		step{s.kubeconfig, "who-can delete configmaps -n hammer --hide-system -o name", 0, "user/hubert\nuser/system:serviceaccount:hammer:bot\ngroup/team-a\nuser/edgar\n"},
		step{s.kubeconfig, "policy revoke deny-delete-configmaps --user edgar -n hammer", 0, "deleted"},
		step{edgar, "can-i delete configmaps/ledger -n hammer -q", 0, ""},
		step{s.kubeconfig, "policy revoke edit --user edgar -n hammer", 0, "configured"},
		step{edgar, "can-i delete configmaps/ledger -n hammer", 1, "no"},
		step{s.kubeconfig, "policy revoke edit --user edgar -n hammer", 0, "Nothing to revoke"},
		step{edgar, "can-i create pods --subresource=exce -n hammer", 3, "served are attach, "},
		step{s.kubeconfig, "can-i * *", 0, "yes"},
		step{edgar, "can-i * *", 1, "no"},
		step{edgar, "can-i get /livez", 0, "yes"},
		step{edgar, "can-i get /metrics", 1, "no"},
		step{s.kubeconfig, "who-can get /metrics --system", 0, "system:masters"},
		step{s.kubeconfig, "who-can get /livez -o name", 0, "group/system:authenticated"},
		step{s.kubeconfig, "who-can * * --system", 0, "system:masters"},
		step{edgar, "explain get /metrics", 1, "- nonResourceURLs:\n      - /metrics\n"},
		step{edgar, "explain get /livez", 0, "system:public-info-viewer"},
		step{edgar, "explain * * -n hammer", 1, "  - '*'"},
	)
	remedyOfARefusal(s, edgar)
	// --dry-run prints what would be written, and it can be applied.
	out, code := s.proviso(s.kubeconfig, "policy", "deny", "delete", "secrets", "--user", "edgar", "-n", "hammer", "--dry-run")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if out := s.apply(out); strings.Count(out, "created") != 2 {
		t.Error(out)
	}
	// What does not work says so in one line on standard error, and prints nothing else.
	cmd := exec.Command(binary(t), "can-i", "get", "podss", "--kubeconfig", s.kubeconfig)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if stdout, err := cmd.Output(); err == nil || cmd.ProcessState.ExitCode() != 3 || len(stdout) > 0 || !strings.Contains(stderr.String(), `did you mean "pods"?`) {
		t.Errorf("%v: %q, %q", err, stdout, stderr.String())
	}
}
