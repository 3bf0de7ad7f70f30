package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const managedDump = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: small, namespace: team}
rules:
- {verbs: [create], resourceKinds: [configmaps], where: 'resource.metadata.?labels.size.orValue("") == "small"', description: only small ones}
- {deny: true, verbs: [create], resourceKinds: [secrets], description: no secrets}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: small, namespace: team}
roleRef: {namespace: team, name: small}
userNames: [ann]
groupNames: [team-a]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: besides, namespace: team}
rules:
- {apiGroups: [""], resources: [configmaps, secrets, pods/exec], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: besides, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: besides}
subjects: [{kind: User, name: ann, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: bob, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: bot, namespace: team}]
`

// MC-5: who can, in a managed cluster: by RBAC, without those whom a compiled policy refuses, and under a condition
// those whom it holds. No server is asked.
func TestWhoCanOfAManagedCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(managedDump), 0o600); err != nil {
		t.Fatal(err)
	}
	nobody := answer(t, map[string]any{})
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"create configmaps -n team -o name", 0, "user/bob\nuser/system:serviceaccount:team:bot\nuser/ann\ngroup/team-a\n"},
		{"create secrets -n team -o name", 0, "user/bob\nuser/system:serviceaccount:team:bot\n"},
		{"create pods --subresource exec -n team -o name", 0, "user/ann\nuser/bob\nuser/system:serviceaccount:team:bot\n"},
		{"create configmaps -n team --filter team-a -o name", 2, "group/team-a\n"},
		{"create configmaps -n other -o name", 0, ""}, // system:masters, who are hidden
	} {
		out, err := nobody.run(t, append([]string{"who-can", "--target", "vap", "--hide-system", "-f", file}, strings.Fields(tt.args)...)...)
		if code(err) != tt.code || out != tt.want {
			t.Errorf("%s: %d %v\n%s\nwant\n%s", tt.args, code(err), err, out, tt.want)
		}
	}
	out, err := nobody.run(t, "who-can", "create", "configmaps", "-n", "team", "--target", "vap", "-f", file)
	if code(err) != 0 || !strings.Contains(out, "only small ones") || !strings.Contains(out, "team-a") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, args := range []string{"get pods --target x -f " + file, "get pods --target vap", "get pods -f " + file, "get pods --target vap --blocked -f " + file, "get pods --target vap --at 2030-01-01T00:00:00Z -f " + file,
		"get /metrics --target vap -f " + file, "get nothings --target vap -f " + file, "get pods --target vap -f " + file + ".none"} {
		if out, err := nobody.run(t, append([]string{"who-can"}, strings.Fields(args)...)...); err == nil || out != "" {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
}
