package e2e

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

// keyFile is a file with a new root key.
func keyFile(t *testing.T) string {
	t.Helper()
	secret := make([]byte, narrowedtoken.KeySize)
	if _, err := rand.Read(secret); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tempDir(t), "root.key")
	if err := os.WriteFile(path, narrowedtoken.KeyText(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TK-7, TK-8: a token that one replica has issued is good on the other, also if the first is killed right after it has
// issued it; keys are rotated one replica at a time, and a token ends with the key that signed it.
func TestTokensOnReplicas(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	old, fresh := keyFile(t), keyFile(t)
	start := func(dir string, keys ...string) *server {
		t.Helper()
		args := append(e.flags(), "--feature-gates", "NarrowedTokens=true")
		for _, k := range keys {
			args = append(args, "--narrowed-token-key-file", k)
		}
		return serve(t, dir, args...)
	}
	first, second := tempDir(t)+"/a", tempDir(t)+"/b"
	a := start(first, old)
	third := tempDir(t) + "/c"
	for _, dir := range []string{second, third} {
		if out, err := exec.Command("sh", "-c", fmt.Sprintf("mkdir -m 700 %[2]s && cp -rp %[1]s/pki %[2]s/pki", first, dir)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	b := start(second, old)
	a.kubectl("create", "configmap", "one")
	a.kubectl("create", "clusterrole", "reader", "--verb=get,list", "--resource=configmaps,services")
	a.kubectl("create", "rolebinding", "edgar", "--clusterrole=reader", "--user=edgar")
	a.kubectl("create", "clusterrolebinding", "edgar", "--clusterrole=proviso:token-requester", "--user=edgar")
	narrow := func(from *server) string {
		t.Helper()
		path := filepath.Join(tempDir(t), "narrow.kubeconfig")
		from.await("a kubeconfig with a token", func() bool { // the right to ask for one comes soon
			out, err := exec.Command(binary(t), "kubeconfig", "--data-dir", from.dir, "--user", "edgar", "--ttl", "1h", "--narrow", "get configmaps -n default", "--out", path).CombinedOutput()
			if err != nil && !strings.Contains(string(out), "forbidden") {
				t.Fatalf("%v\n%s", err, out)
			}
			return err == nil
		})
		return path
	}
	use := func(at *server, config, resource string) string {
		t.Helper()
		out, err := at.try("", "--kubeconfig", config, "--server", fmt.Sprintf("https://127.0.0.1:%d", at.port), "get", resource, "-n", "default", "-o", "name")
		if err != nil {
			return err.Error() + out
		}
		return strings.TrimSpace(out)
	}
	good := func(what string, at *server, config string) {
		t.Helper()
		if got := use(at, config, "configmap/one"); got != "configmap/one" {
			t.Errorf("%s: %s", what, got)
		}
		if got := use(at, config, "service/kubernetes"); !strings.Contains(got, "your token does not allow it: link 1") {
			t.Errorf("%s, what it does not allow: %s", what, got)
		}
	}
	bad := func(what string, at *server, config string) {
		t.Helper()
		if got := use(at, config, "configmap/one"); !strings.Contains(got, "Unauthorized") && !strings.Contains(got, "must be logged in") {
			t.Errorf("%s: %s", what, got)
		}
	}

	listed := func(at *server) string {
		t.Helper()
		out, code := at.proviso(at.kubeconfig, "token", "list", "--user-name", "edgar", "-o", "json", "--server", fmt.Sprintf("https://127.0.0.1:%d", at.port))
		if code != 0 {
			t.Fatalf("the list: %s", out)
		}
		return out
	}
	before := narrow(a)
	one := listed(a)
	if strings.Count(one, `"id":`) != 1 || one != listed(b) {
		t.Errorf("replicas list other tokens:\n%s\n%s", one, listed(b))
	}
	a.signal(syscall.SIGKILL)
	a.wait()
	if text, err := os.ReadFile(before); err != nil || strings.Contains(string(text), "client-certificate") || strings.Contains(string(text), "client-key") {
		t.Errorf("the kubeconfig holds another credential, or cannot be read: %v", err)
	}
	good("issued by the one that was killed", b, before)
	if got := listed(b); got != one {
		t.Errorf("after the one that issued it was killed:\n%s\nwant\n%s", got, one)
	}

	b.stop()
	b = start(second, old, fresh) // every replica verifies by the new key before one signs by it
	a = start(first, fresh, old)
	after := narrow(a)
	if two := listed(a); strings.Count(two, `"id":`) != 2 || two != listed(b) {
		t.Errorf("after both were started again:\n%s\n%s", two, listed(b))
	}
	good("the old one at the first", a, before)
	good("the old one at the second", b, before)
	good("the new one at the first", a, after)
	good("the new one at the second", b, after)
	b.stop()
	b = start(second, fresh)
	bad("the old one where its key is gone", b, before)
	good("the new one there", b, after)
	bad("without the new key", start(third, old), after)
}

// TK-6: what was issued is listed by a server that was killed right after it, and a token that was revoked right before
// the end stays so.
func TestTokensSurviveKill(t *testing.T) {
	t.Parallel()
	dir := tempDir(t) + "/d"
	start := func() *server { return serve(t, dir, "--feature-gates", "NarrowedTokens=true") }
	s := start()
	run := func(args ...string) string {
		t.Helper()
		out, code := s.proviso(s.kubeconfig, append(args, "--server", fmt.Sprintf("https://127.0.0.1:%d", s.port))...)
		if code != 0 {
			t.Fatalf("%v: %s", args, out)
		}
		return out
	}
	token := filepath.Join(tempDir(t), "token")
	var ids []string
	for n := range 3 {
		_ = os.Remove(token)
		run("token", "request", "--allow", "get configmaps -n default", "--description", fmt.Sprintf("agent %d", n), "--out", token)
		text, err := os.ReadFile(token)
		if err != nil {
			t.Fatal(err)
		}
		read, err := narrowedtoken.Inspect(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, read.Payload.ID)
		if n == 1 {
			run("token", "revoke", read.Payload.ID)
		}
		s.signal(syscall.SIGKILL)
		s.wait()
		s = start()
		s.await("what was issued and revoked", func() bool {
			out := run("token", "list")
			for i, id := range ids {
				if !strings.Contains(out, id) || !strings.Contains(out, fmt.Sprintf("agent %d", i)) {
					t.Fatalf("%s is not listed:\n%s", id, out)
				}
			}
			return n == 0 || strings.Contains(out, "Revoked") && strings.Contains(out, "REVOCATION")
		})
	}
}

// TM-11: what was approved counts after the server was killed between the approval and its effect, and what was revoked
// does not.
func TestGrantsSurviveKill(t *testing.T) {
	t.Parallel()
	dir := tempDir(t) + "/d"
	s := serve(t, dir)
	s.kubectl("create", "configmap", "one")
	s.apply(`
apiVersion: access.proviso.dev/v1alpha1
kind: AccessRule
metadata: {name: on-call}
spec:
  subjects: {userNames: [alice]}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
  namespaces: [default]
  maxDurationSeconds: 7200
  approvals: {count: 1, subjects: {groupNames: ["system:masters"]}}
`)
	alice, err := s.issue("alice")
	if err != nil {
		t.Fatal(err)
	}
	// Each life of the server has a port.
	as := func(kubeconfig string, args ...string) (string, int) {
		return s.proviso(kubeconfig, append(args, "--server", fmt.Sprintf("https://127.0.0.1:%d", s.port))...)
	}
	may := func() bool {
		_, err := s.try("", "--kubeconfig", alice, "--server", fmt.Sprintf("https://127.0.0.1:%d", s.port), "get", "configmap", "one", "-n", "default")
		return err == nil
	}
	again := func() {
		s.signal(syscall.SIGKILL)
		s.wait()
		s = serve(t, dir)
	}
	name := ""
	s.await("the right to ask", func() bool {
		out, code := as(alice, "access", "request", "on-call", "-n", "default", "--for", "1h", "-o", "name")
		name = strings.TrimSpace(out[strings.LastIndex(out, "/")+1:])
		return code == 0
	})
	if may() {
		t.Fatal("what is pending counts")
	}
	for _, said := range []struct {
		what   string
		counts bool
	}{{"approve", true}, {"revoke", false}} {
		if out, code := as(s.kubeconfig, "access", said.what, name, "-n", "default"); code != 0 {
			t.Fatalf("%s: %s", said.what, out)
		}
		again()
		s.await("what came of "+said.what, func() bool { return may() == said.counts })
		again()
		if may() != said.counts {
			t.Errorf("%s is undone by a restart", said.what)
		}
	}
}
