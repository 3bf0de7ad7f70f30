package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBackupBringsPolicyBack: a deny is deleted after a backup, and holds again after the restore. // OP-3
// The data that it begins with was stored by the release before. // OP-4
func TestBackupBringsPolicyBack(t *testing.T) {
	t.Parallel()
	root := tempDir(t)
	dir, file := filepath.Join(root, "d"), filepath.Join(root, "backup.db")
	snapshot := func(args ...string) (string, error) {
		text, err := exec.Command(binary(t), append([]string{"backup"}, args...)...).CombinedOutput()
		return string(text), err
	}
	kept := keptRelease(t, root)
	if text, err := snapshot("check", kept); err != nil || !strings.Contains(text, " 0 of them unreadable") {
		t.Fatalf("check of what the release before has stored: %v\n%s", err, text)
	}
	if data, err := os.ReadFile(kept); err != nil || !bytes.Contains(data, []byte(`"kind":"AccessRequest"`)) || !bytes.Contains(data, []byte(`"kind":"AccessUsage"`)) {
		t.Fatalf("the release before has stored no access request, or no usage: %v", err)
	}
	if text, err := snapshot("restore", kept, "--data-dir", dir); err != nil {
		t.Fatalf("restore of what the release before has stored: %v\n%s", err, text)
	}
	s := serve(t, dir, keptGates)
	s.servesKept()
	s.kubectl("create", "clusterrolebinding", "bob", "--clusterrole=cluster-admin", "--user=bob")
	s.apply(`apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: no-secrets, namespace: master}
rules: [{deny: true, verbs: [get], resourceKinds: [secrets]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: no-secrets, namespace: master}
roleRef: {name: no-secrets, namespace: master}
userNames: [bob]
`)
	denied := func() bool {
		text, _ := s.try("", "get", "secret", "x", "--as=bob")
		return strings.Contains(text, "denied by RoleBinding")
	}
	s.await("the deny", denied)
	if text, err := snapshot("save", file, "--data-dir", dir); err != nil {
		t.Fatalf("save: %v\n%s", err, text)
	}
	s.kubectl("delete", "rolebindings.authorization.proviso.dev", "no-secrets", "-n", "master")
	s.await("its end", func() bool { return !denied() })
	if text, err := snapshot("restore", file, "--data-dir", dir, "--discard-newer"); err == nil || !strings.Contains(text, "stop the server first") {
		t.Fatalf("restored while the server runs: %v\n%s", err, text)
	}
	s.stop()
	if text, err := snapshot("restore", file, "--data-dir", dir); err == nil || !strings.Contains(text, "newer than the backup") {
		t.Fatalf("restored over newer data: %v\n%s", err, text)
	}
	if text, err := snapshot("restore", file, "--data-dir", dir, "--discard-newer"); err != nil {
		t.Fatalf("restore: %v\n%s", err, text)
	}
	s = serve(t, dir, keptGates)
	if !denied() {
		t.Error("the deny that was in the backup does not hold")
	}
}
