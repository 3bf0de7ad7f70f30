package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const restarter = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: restarter, namespace: red}
rules: [{verbs: [get, delete], resourceKinds: [pods]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: restarter, namespace: red}
roleRef: {namespace: red, name: restarter}
groupNames: [on-call]
`

// TR-19, TR-20: a namespace admin plans, looks, and goes back with the rights that they have; the tools say once what
// they could not see. Other namespaces stay unseen, and a caller without rights learns nothing.
func TestNamespaceAdminsUseTheTools(t *testing.T) {
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	for _, namespace := range []string{"red", "blue"} {
		s.kubectl("create", "namespace", namespace)
		if out, code := s.proviso(s.kubeconfig, "policy", "open", namespace, "--user", "admin-of-"+namespace); code != 0 {
			t.Fatal(out)
		}
	}
	as := func(args ...string) (string, int) {
		return s.proviso(s.kubeconfig, append(args, "--as", "admin-of-red")...)
	}
	s.apply(restarter, "--as", "admin-of-red")
	wider := filepath.Join(t.TempDir(), "wider.yaml")
	if err := os.WriteFile(wider, []byte(strings.Replace(restarter, "[get, delete]", "[get, delete, watch]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	var undo string
	for _, ask := range []struct {
		args  string
		code  int
		wants []string
	}{
		{"plan -f " + wider, 2, []string{"watch pods", "group on-call", "you may not read", "red/restarter: by admin-of-red"}},
		{"matrix -n red --group on-call --resource pods", 0, []string{"red/restarter", "Incomplete: you may not read"}},
		{"lint -n red", 0, []string{"Incomplete: you may not read"}},
		{"history --since 1h", 0, []string{"red/default", "+restarter", "Only changes of policy that you may read"}},
		{"rollback --to 99999999 -n red", 3, []string{"there is no revision 99999999"}},
		{"rollback --to 0s -n red", 0, []string{"there is nothing to do"}},
	} {
		out, code := as(strings.Fields(ask.args)...)
		for _, want := range ask.wants {
			if code != ask.code || !strings.Contains(out, want) || strings.Contains(out, "blue") {
				t.Errorf("%s: exit code %d, want %d and %q\n%s", ask.args, code, ask.code, want, out)
			}
		}
		if strings.HasPrefix(ask.args, "history") {
			for line := range strings.Lines(out) {
				if strings.Contains(line, "policies.policy.proviso.dev red/default") && strings.Contains(line, "+restarter") {
					undo = strings.Fields(line)[0]
				}
			}
		}
	}
	if out, code := as("undo", undo, "-n", "red", "--yes"); code != 0 || !strings.Contains(out, "delete RoleBinding.authorization.proviso.dev red/restarter: done") {
		t.Errorf("undo %s: %d\n%s", undo, code, out)
	}
	if out, err := s.try("", "get", "roles.authorization.proviso.dev", "-n", "red", "-o", "name"); err != nil || strings.Contains(out, "restarter") {
		t.Errorf("%v %s", err, out)
	}
	for _, args := range []string{"plan -f " + wider, "matrix -n red", "lint -n red", "undo " + undo + " -n red"} {
		if out, code := s.proviso(s.kubeconfig, append(strings.Fields(args), "--as", "stranger")...); code != 3 || strings.Contains(out, "on-call") {
			t.Errorf("%s by a stranger: %d\n%s", args, code, out)
		}
	}
	if out, code := s.proviso(s.kubeconfig, "history", "--as", "stranger"); code != 0 || strings.Contains(out, "red") || strings.Contains(out, "blue") {
		t.Errorf("history of a stranger: %d\n%s", code, out)
	}
}
